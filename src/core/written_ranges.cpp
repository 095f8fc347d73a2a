// SPDX-License-Identifier: Apache-2.0
#include "core/written_ranges.hpp"

#include <algorithm>
#include <iterator>

namespace st::core {

void WrittenRanges::reset(std::size_t tensors) { states_ = std::vector<std::atomic<State>>(tensors); }

std::optional<ByteRange> WrittenRanges::claim(std::size_t number, ByteRange range) {
  State before = State::unwritten;
  states_[number].compare_exchange_strong(before, State::in_ranges);
  if (before == State::whole) return range;
  return claim_range(range);
}

std::optional<ByteRange> WrittenRanges::claim_whole(std::size_t number, ByteRange tensor) {
  State before = State::unwritten;
  if (states_[number].compare_exchange_strong(before, State::whole)) return std::nullopt;
  if (before == State::whole) return tensor;
  return claim_range(tensor);
}

std::optional<ByteRange> WrittenRanges::claim_range(ByteRange range) {
  auto [begin, end] = range;
  const std::lock_guard lock(mutex_);
  const auto after = ranges_.lower_bound(begin);
  const auto before = after == ranges_.begin() ? ranges_.end() : std::prev(after);
  if (before != ranges_.end() && before->second > begin) return ByteRange{begin, std::min(end, before->second)};
  if (after != ranges_.end() && after->first < end) return ByteRange{after->first, std::min(end, after->second)};

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

std::uint64_t WrittenRanges::missing(std::size_t number, ByteRange tensor) const {
  const auto [begin, end] = tensor;
  const State state = states_[number].load();
  if (state != State::in_ranges) return state == State::whole ? 0 : end - begin;
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
