// Which bytes of a file's tensors have been given: pieces arrive in any order and each byte once.
//
// A tensor that comes whole is one flag. Pieces are ranges, of which neighbours are merged: a file written front to
// back, or in a few streams, is a few ranges however many pieces it came in.
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

struct Range {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

class Coverage {
 public:
  void reset(std::size_t tensors);

  // The range lies in the file and inside tensor `number`, or is all of it: the same range each time then.
  // From any number of threads. Returns what is already there of the range, in which case nothing changes.
  std::optional<Range> claim(std::size_t number, Range piece);
  std::optional<Range> claim_whole(std::size_t number, Range tensor);

  // Bytes of the tensor that were never claimed.
  std::uint64_t missing(std::size_t number, Range tensor) const;

 private:
  enum class Came : std::uint8_t { not_yet, whole, in_pieces };

  std::optional<Range> claim_range(Range range);

  std::vector<std::atomic<Came>> came_;
  mutable std::mutex mutex_;
  std::map<std::uint64_t, std::uint64_t> ranges_;  // begin -> end; apart from one another
};

}  // namespace st::core
