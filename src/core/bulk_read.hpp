// The engine of bulk reads: threads take batches of reads until there are none, one fails or they must stop.
//
// docs/engine.md describes the decisions. read_scheduler.cpp makes the batches, io/source.hpp chooses the path,
// read_executor.cpp reads.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/parallel_for.hpp"
#include "core/read_executor.hpp"
#include "core/read_scheduler.hpp"
#include "core/shard.hpp"
#include "io/source.hpp"

namespace st::core {

struct ReadOptions {
  unsigned threads = 0;  // 0: choose; 1: only the calling thread
  io::Cache cache = io::Cache::automatic;
  std::uint64_t chunk_bytes = 0;  // 0: choose; others are brought into 64 KiB to 1 GiB
  std::uint64_t gap_bytes = 0;    // 0: choose
  HostPool pool;
  void* ctx = nullptr;
  std::int32_t (*progress)(void* ctx, std::uint64_t done, std::uint64_t total) = nullptr;  // non-zero cancels
  void (*ready)(void* ctx, std::size_t entry) = nullptr;  // an entry is complete; from any thread
};

// The callbacks of read_all(). Any thread may call them.
class BulkReadListener : public ReadListener {
 public:
  virtual const Tensor& tensor(std::size_t entry) const = 0;
  virtual void report() = 0;  // called between two batches, by one thread only, to report progress
  virtual void stop() = 0;    // stopped() must return true from now on
  virtual void count(const ReadCounts& counts) = 0;  // called once by each thread, when it ends

 protected:
  ~BulkReadListener() = default;
};

// Reads the requests, which are sorted by (source, begin) and each have a byte at least. Throws the first error, which
// names the file, the tensor and the offset. Returns early if listener.stopped().
void read_all(std::span<const ReadRequest> requests, const Readers& readers, const ReadOptions& options,
              BulkReadListener& listener);

}  // namespace st::core
