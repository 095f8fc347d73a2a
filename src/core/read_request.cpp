// SPDX-License-Identifier: Apache-2.0
#include "core/read_request.hpp"

#include <algorithm>
#include <span>
#include <tuple>
#include <utility>

namespace st::core {

namespace {

// Splitting n overlapping ranges can give n² parts. Above this many parts per range, reading the shared bytes several
// times is faster.
constexpr std::size_t kMostParts = 64;

bool before(const ReadRequest& a, const ReadRequest& b) {
  return a.source != b.source ? a.source < b.source : a.begin < b.begin;
}

// The requests are sorted.
bool any_overlap(std::span<const ReadRequest> requests) {
  std::size_t source = SIZE_MAX;
  std::uint64_t end = 0;
  for (const ReadRequest& request : requests) {
    if (request.slice != nullptr) continue;
    if (request.source == source && request.begin < end) return true;
    source = request.source;
    end = end_of(request);
  }
  return false;
}

ReadRequest part_of(const ReadRequest& whole, std::uint64_t begin, std::uint64_t end) {
  ReadRequest part = whole;
  part.begin = begin;
  part.bytes = end - begin;
  part.dst = whole.dst + (begin - whole.begin);
  return part;
}

// Returns the positions where a range begins or ends, ascending.
std::vector<std::uint64_t> limits_of(std::span<const ReadRequest> ranges) {
  std::vector<std::uint64_t> limits;
  limits.reserve(2 * ranges.size());
  for (const ReadRequest& range : ranges) {
    limits.push_back(range.begin);
    limits.push_back(end_of(range));
  }
  std::sort(limits.begin(), limits.end());
  limits.erase(std::unique(limits.begin(), limits.end()), limits.end());
  return limits;
}

// Splits overlapping ranges, sorted by begin, at each of their limits. Returns false, and does nothing, if there would be
// too many parts.
bool split(std::span<const ReadRequest> ranges, OtherDestinations& others, std::vector<ReadRequest>& parts) {
  const std::vector<std::uint64_t> limits = limits_of(ranges);
  std::size_t count = 0;
  for (const ReadRequest& range : ranges) {
    const auto first = std::lower_bound(limits.begin(), limits.end(), range.begin);
    count += static_cast<std::size_t>(std::lower_bound(first, limits.end(), end_of(range)) - first);
  }
  if (count > kMostParts * ranges.size()) return false;

  std::vector<const ReadRequest*> open;
  std::size_t next = 0;
  for (std::size_t i = 0; i + 1 < limits.size(); ++i) {
    const std::uint64_t begin = limits[i];
    std::erase_if(open, [begin](const ReadRequest* range) { return end_of(*range) <= begin; });
    for (; next < ranges.size() && ranges[next].begin == begin; ++next) open.push_back(&ranges[next]);
    const ReadRequest* also = nullptr;
    for (std::size_t k = open.size() - 1; k > 0; --k) {
      ReadRequest other = part_of(*open[k], begin, limits[i + 1]);
      other.also = also;
      also = &others.emplace_front(other);
    }
    parts.push_back(part_of(*open.front(), begin, limits[i + 1]));
    parts.back().also = also;
  }
  return true;
}

}  // namespace

void sort_by_position(std::vector<ReadRequest>& requests) {
  if (!std::is_sorted(requests.begin(), requests.end(), before)) std::sort(requests.begin(), requests.end(), before);
}

OtherDestinations split_overlaps(std::vector<ReadRequest>& requests) {
  OtherDestinations others;
  if (!any_overlap(requests)) return others;
  std::vector<ReadRequest> ranges;
  std::vector<ReadRequest> result;
  for (const ReadRequest& request : requests) (request.slice == nullptr ? ranges : result).push_back(request);
  for (std::size_t first = 0; first < ranges.size();) {
    std::size_t last = first + 1;
    std::uint64_t end = end_of(ranges[first]);
    while (last < ranges.size() && ranges[last].source == ranges[first].source && ranges[last].begin < end) {
      end = std::max(end, end_of(ranges[last++]));
    }
    const std::span<const ReadRequest> together(ranges.data() + first, last - first);
    if (together.size() == 1 || !split(together, others, result)) {
      result.insert(result.end(), together.begin(), together.end());
    }
    first = last;
  }
  std::sort(result.begin(), result.end(), [](const ReadRequest& a, const ReadRequest& b) {
    return std::tie(a.source, a.begin, a.entry) < std::tie(b.source, b.begin, b.entry);
  });
  requests = std::move(result);
  return others;
}

}  // namespace st::core
