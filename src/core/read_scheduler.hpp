// Cuts the requests of a plan into batches, one at a time and in the order of the sources.
//
// There is no list of batches: the scheduler is a cursor into the sorted requests, and a slice of ten million runs is one
// request. Each batch is made when a thread asks for it, because different parts of a file may be cached by then.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "core/read_request.hpp"
#include "io/source.hpp"

namespace st::core {

using Readers = std::vector<std::unique_ptr<io::SourceReader>>;

// What one thread reads before it takes the next batch: ranges, or runs of the slice of `request`.
struct ReadBatch {
  io::SourceReader* reader = nullptr;
  io::ReadPath path = io::ReadPath::cached;
  std::vector<ReadRequest> ranges;  // ascending, without overlap, with gaps of at most `gap`; empty: runs
  const ReadRequest* request = nullptr;
  std::uint64_t first_run = 0;
  std::uint64_t runs = 0;
  std::uint64_t room = 0;             // maximum bytes of the source that one read of runs may span
  std::uint64_t gap = 0;              // maximum unwanted bytes to read between two ranges
  const std::byte* memory = nullptr;  // of the source, to copy runs from; nullptr: they are read
};

struct BatchLimits {
  unsigned threads = 1;
  std::uint64_t chunk_bytes = 0;  // 0: chosen by the path and the number of threads
  std::uint64_t gap_bytes = 0;    // 0: chosen by the path and the source's Traits::request_cost
  std::uint64_t most_gap = UINT64_MAX;
};

// Rounds the bytes of a request to 64 KiB .. 1 GiB, in steps of 4 KiB. 0 stays 0.
std::uint64_t usable_chunk(std::uint64_t given);

class ReadScheduler {
 public:
  // `requests` sorted by (source, begin).
  ReadScheduler(std::span<const ReadRequest> requests, const Readers& readers, const BatchLimits& limits);

  // Makes the next batch, in the memory of `batch`. Returns false if none is left. The previous batch in this memory must
  // have been read: the descriptors of its file may be closed now.
  bool next(ReadBatch& batch);

  // Halves the size of later batches. Call this after a batch that took so long that it would have delayed a cancel.
  void slow_down();

 private:
  void enter_source(std::size_t source);
  void end_batch(ReadBatch& batch);
  void close_descriptors(std::size_t source);
  io::ReadPath path_at(std::uint64_t at);
  std::uint64_t batch_bytes(io::ReadPath path) const;
  std::uint64_t gap_bytes(io::ReadPath path) const;
  std::uint64_t least_runs(const format::Slice& slice, io::ReadPath path, const Device* device) const;
  void take_ranges(ReadBatch& batch, std::uint64_t room);
  void take_runs(ReadBatch& batch, std::uint64_t room);
  void take_long_run(ReadBatch& batch, std::uint64_t room);

  const std::span<const ReadRequest> requests_;
  const Readers& readers_;
  const BatchLimits limits_;
  const std::uint64_t cached_bytes_;  // of a batch of cached bytes

  std::mutex mutex_;
  // The cursor into requests_, and the progress inside the current one:
  std::size_t next_ = 0;
  std::uint64_t taken_ = 0;  // bytes of the range, or of the current run
  std::uint64_t run_ = 0;    // whole runs
  std::size_t source_ = SIZE_MAX;
  std::uint64_t source_end_ = 0;  // where the last request of the source ends
  io::Traits traits_;             // of the source
  std::uint64_t block_end_ = 0;   // path_ is decided up to here
  io::ReadPath path_ = io::ReadPath::cached;
  std::uint64_t most_ = UINT64_MAX;  // bytes of a batch, after slow_down()
  std::vector<std::size_t> in_use_;  // batches of each source that are being read
};

}  // namespace st::core
