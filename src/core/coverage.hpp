// Which bytes of a file have been given: pieces arrive in any order and each byte once.
//
// Neighbours are merged, so that a file written front to back, or in a few streams, is a few ranges however many
// pieces it came in.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>

namespace st::core {

struct Range {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

class Coverage {
 public:
  // From any number of threads. What is already there of [begin, end), in which case nothing changes.
  std::optional<Range> claim(std::uint64_t begin, std::uint64_t end);

  // Bytes of [begin, end) that were never claimed.
  std::uint64_t missing(std::uint64_t begin, std::uint64_t end) const;

 private:
  mutable std::mutex mutex_;
  std::map<std::uint64_t, std::uint64_t> ranges_;  // begin -> end; apart from one another
};

}  // namespace st::core
