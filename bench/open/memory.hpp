// How much memory an open takes, and how long hostile headers take to be judged.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "cases.hpp"

namespace bench {

struct Once {
  std::string loader;
  std::string verdict;  // "-" when the process died
  double seconds = 0;
  std::size_t heap_peak = 0;  // bytes above the start
  std::size_t resident_peak = 0;
};

struct MemoryRow {
  const Case* tested = nullptr;
  std::vector<Once> runs;
};

// `once`: the program that opens a single file.
MemoryRow measure_memory(const Case& tested, const std::string& once, const std::string& warm_up_file);

void print(const std::vector<MemoryRow>& rows);
nlohmann::ordered_json json_of(const MemoryRow& row);

// The verdict that the case wants of that run.
bool verdict_is_right(const Case& tested, const Once& run);

}  // namespace bench
