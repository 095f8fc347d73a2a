// The threads of a bulk read: each takes batches until none is left, a read fails, or the run is cancelled.
//
// docs/engine.md describes the decisions. read_scheduler.cpp makes the batches, io/source.hpp chooses the path,
// read_executor.cpp reads.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/parallel_for.hpp"
#include "core/checkpoint.hpp"
#include "core/read_listener.hpp"
#include "core/read_scheduler.hpp"
#include "io/source.hpp"

namespace st::core {

struct ReadOptions {
  unsigned threads = 0;  // 0: choose; 1: only the calling thread
  io::Cache cache = io::Cache::automatic;
  std::uint64_t chunk_bytes = 0;        // 0: choose; clamped to 64 KiB to 1 GiB
  std::uint64_t gap_bytes = 0;          // 0: choose
  std::uint64_t most_gap = UINT64_MAX;  // limits gap_bytes, even if it is chosen
  HostPool pool;
  void* ctx = nullptr;
  std::int32_t (*progress)(void* ctx, std::uint64_t done, std::uint64_t total) = nullptr;  // non-zero cancels
  void (*ready)(void* ctx, std::size_t entry) = nullptr;  // an entry is complete; from any thread
};

// Reads the requests, which are sorted by source and begin and have at least one byte each. Throws the first error, which
// names the tensor, the file and the offset. Returns early if listener.stopped().
void read_all(std::span<const ReadRequest> requests, const Readers& readers, const ReadOptions& options,
              const ReadListener& listener);

// Reads sorted requests whose sources are numbers of shards and whose begins are offsets in their files. Changes them.
void read_shards(std::vector<ReadRequest>& requests, const Checkpoint& checkpoint, const ReadOptions& options,
                 const ReadListener& listener);

}  // namespace st::core
