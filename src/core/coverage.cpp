// SPDX-License-Identifier: Apache-2.0
#include "core/coverage.hpp"

#include <algorithm>
#include <iterator>

namespace st::core {

void Coverage::reset(std::size_t tensors) { came_ = std::vector<std::atomic<Came>>(tensors); }

std::optional<Range> Coverage::claim(std::size_t number, Range piece) {
  Came before = Came::not_yet;
  came_[number].compare_exchange_strong(before, Came::in_pieces);
  if (before == Came::whole) return piece;
  return claim_range(piece);
}

std::optional<Range> Coverage::claim_whole(std::size_t number, Range tensor) {
  Came before = Came::not_yet;
  if (came_[number].compare_exchange_strong(before, Came::whole)) return std::nullopt;
  if (before == Came::whole) return tensor;
  return claim_range(tensor);
}

std::optional<Range> Coverage::claim_range(Range range) {
  auto [begin, end] = range;
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

std::uint64_t Coverage::missing(std::size_t number, Range tensor) const {
  const auto [begin, end] = tensor;
  const Came came = came_[number].load();
  if (came != Came::in_pieces) return came == Came::whole ? 0 : end - begin;
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
