// Records which bytes of a new file's tensors the caller has put. Bytes arrive in any order, each byte once.
//
// A tensor put in one call takes only a flag. Parts are recorded as ranges, and adjacent ranges are merged. So a file
// written sequentially, or in a few sequential streams, needs only a few ranges, regardless of the number of calls.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

namespace st::core {

struct ByteRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

class WrittenRanges {
 public:
  void reset(std::size_t tensors);

  // Marks bytes of tensor `number` as put. Ranges are positions in the file; claim_whole() takes the tensor's whole
  // range. Any number of threads may call this. If some of the bytes were already put, marks nothing and returns those
  // bytes.
  std::optional<ByteRange> claim(std::size_t number, ByteRange range);
  std::optional<ByteRange> claim_whole(std::size_t number, ByteRange tensor);

  // Returns how many bytes of the tensor have not been put.
  std::uint64_t missing(std::size_t number, ByteRange tensor) const;

 private:
  // Four bytes, because riscv64 needs libatomic for atomic operations on single bytes.
  enum class State : std::uint32_t { unwritten, whole, in_ranges };

  std::optional<ByteRange> claim_range(ByteRange range);

  std::vector<std::atomic<State>> states_;
  mutable std::mutex mutex_;
  std::map<std::uint64_t, std::uint64_t> ranges_;  // begin -> end; neither overlapping nor adjacent
};

}  // namespace st::core
