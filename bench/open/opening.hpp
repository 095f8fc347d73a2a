// How long it takes to open a file, and to find a tensor in it by name.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include <nlohmann/json.hpp>

#include "../rounds.hpp"
#include "cases.hpp"
#include "loaders.hpp"

namespace bench {

struct OpenRow {
  const Case* tested = nullptr;
  Sample ours, crate, floor, stage_one, bintensors;  // of a model in shards: all shards, one after another
  Sample ours_bintensors;                            // our reader on the bintensors file of the same table
  Sample checkpoint;                                 // all shards and their index as one handle
  Sample floor_on_threads;                           // what reads the same headers on as many threads
  Sample before, checkpoint_before;                  // of the library to compare with
};

struct FindRow {
  const Case* tested = nullptr;
  Sample ours_hit, ours_miss, crate_hit, crate_miss, bintensors_hit, bintensors_miss;  // of one name
};

// Memory that a process has had before costs less than pages that the system has yet to find and clear.
enum class Memory : std::uint8_t { fresh, reused };

// `before`: another loader to compare with, or nullptr.
OpenRow measure_open(const Case& tested, const Loader* before, int rounds, Memory memory);
FindRow measure_find(const Case& tested, int rounds);

void print(const std::vector<OpenRow>& rows);
void print(const std::vector<FindRow>& rows);
nlohmann::ordered_json json_of(const OpenRow& row);
nlohmann::ordered_json json_of(const FindRow& row);

}  // namespace bench
