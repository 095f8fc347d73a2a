// SPDX-License-Identifier: Apache-2.0
#include "core/coverage.hpp"

#include <algorithm>
#include <iterator>

namespace st::core {

std::optional<Range> Coverage::claim(std::uint64_t begin, std::uint64_t end) {
  if (begin == end) return std::nullopt;
  const std::lock_guard lock(mutex_);
  const auto after = ranges_.lower_bound(begin);
  const auto before = after == ranges_.begin() ? ranges_.end() : std::prev(after);
  if (before != ranges_.end() && before->second > begin) return Range{begin, std::min(end, before->second)};
  if (after != ranges_.end() && after->first < end) return Range{after->first, std::min(end, after->second)};

  if (after != ranges_.end() && after->first == end) {
    end = after->second;
    ranges_.erase(after);
  }
  if (before != ranges_.end() && before->second == begin) {
    before->second = end;
  } else {
    ranges_.emplace(begin, end);
  }
  return std::nullopt;
}

std::uint64_t Coverage::missing(std::uint64_t begin, std::uint64_t end) const {
  const std::lock_guard lock(mutex_);
  std::uint64_t absent = end - begin;
  auto at = ranges_.upper_bound(begin);
  if (at != ranges_.begin()) --at;
  for (; at != ranges_.end() && at->first < end; ++at) {
    const std::uint64_t from = std::max(begin, at->first);
    const std::uint64_t to = std::min(end, at->second);
    if (to > from) absent -= to - from;
  }
  return absent;
}

}  // namespace st::core
