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

void cut(const ReadRequest& request, std::uint64_t begin, std::uint64_t end, std::vector<ReadRequest>& parts,
         std::forward_list<format::Slice>& slices) {
  begin = std::max(begin, request.begin);
  end = std::min(end, end_of(request));
  if (begin >= end) return;
  if (request.slice == nullptr) return parts.push_back(part_of(request, begin, end));
  const format::Slice& slice = *request.slice;
  const std::uint64_t tensor = request.begin - slice.src_begin;  // modulo 2^64, like the positions of runs
  const auto add_run = [&](const format::Run& run) {
    const std::uint64_t from = std::max(begin, tensor + run.src);
    const std::uint64_t to = std::min(end, tensor + run.src + slice.run_bytes);
    parts.push_back({request.source, from, to - from, request.dst + run.dst + (from - tensor - run.src), request.entry,
                     nullptr, request.device, nullptr});
  };
  std::uint64_t first = format::first_run_after(slice, begin - tensor);
  std::uint64_t last = format::first_run_after(slice, end - tensor + slice.run_bytes - 1);  // one past
  if (first < last && tensor + format::run_at(slice, first).src < begin) add_run(format::run_at(slice, first++));
  const bool cut_off = first < last && tensor + format::run_at(slice, last - 1).src + slice.run_bytes > end;
  if (cut_off) --last;
  for (format::Slice& runs : format::slices_of_runs(slice, first, last - first)) {
    if (runs.levels.empty()) {
      add_run({runs.src_begin, runs.dst_begin});
      continue;
    }
    slices.push_front(std::move(runs));
    parts.push_back({request.source, tensor + slices.front().src_begin, format::extent(slices.front()), request.dst,
                     request.entry, &slices.front(), request.device, nullptr});
  }
  if (cut_off) add_run(format::run_at(slice, last));
}

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
