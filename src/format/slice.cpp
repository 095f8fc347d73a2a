// SPDX-License-Identifier: Apache-2.0
#include "format/slice.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.hpp"

namespace st::format {

namespace {

// The selected positions of one dimension, ascending.
struct Range {
  std::uint64_t first = 0;
  std::uint64_t count = 0;
  std::uint64_t step = 1;
  bool backwards = false;
};

// ST_SLICE_BEGIN and ST_SLICE_END of the public header, valid for any dimension.
constexpr std::int64_t kBeforeFirst = INT64_MIN;
constexpr std::int64_t kAfterLast = INT64_MAX;

// Clamps a position to 0..length, as Python does.
std::uint64_t forward_position(std::int64_t value, std::uint64_t length) {
  if (value == kBeforeFirst) return 0;
  if (value == kAfterLast) return length;
  if (value >= 0) return std::min(static_cast<std::uint64_t>(value), length);
  const std::uint64_t from_end = 0 - static_cast<std::uint64_t>(value);
  return from_end > length ? 0 : length - from_end;
}

// Same for a negative step. "Before the first" is a position too, so all positions are one higher.
std::uint64_t backward_position(std::int64_t value, std::uint64_t length) {
  if (value == kBeforeFirst) return 0;
  if (value == kAfterLast) return length;
  if (value >= 0) return static_cast<std::uint64_t>(value) >= length ? length : static_cast<std::uint64_t>(value) + 1;
  const std::uint64_t from_end = 0 - static_cast<std::uint64_t>(value);
  return from_end > length ? 0 : length - from_end + 1;
}

std::uint64_t steps_between(std::uint64_t low, std::uint64_t high, std::uint64_t step) {
  return high > low ? (high - low - 1) / step + 1 : 0;
}

Range range_of(const std::int64_t* begin, const std::int64_t* end, std::int64_t step, std::uint64_t length) {
  Range range;
  if (step > 0) {
    range.step = static_cast<std::uint64_t>(step);
    range.first = begin == nullptr ? 0 : forward_position(*begin, length);
    range.count = steps_between(range.first, end == nullptr ? length : forward_position(*end, length), range.step);
    return range;
  }
  range.step = 0 - static_cast<std::uint64_t>(step);
  range.backwards = true;
  const std::uint64_t high = begin == nullptr ? length : backward_position(*begin, length);
  range.count = steps_between(end == nullptr ? 0 : backward_position(*end, length), high, range.step);
  if (range.count != 0) range.first = high - 1 - (range.count - 1) * range.step;
  return range;
}

// Adds a level, or merges it into the run or the next inner level if it continues that without a gap. The destination
// has no gaps.
void add_level(Slice& slice, const SliceLevel& level) {
  if (slice.levels.empty() && level.src_stride == slice.run_bytes && !level.backwards) {
    slice.run_bytes *= level.count;
    return;
  }
  if (!slice.levels.empty()) {
    SliceLevel& inner = slice.levels.back();
    if (level.backwards == inner.backwards && level.src_stride == inner.src_stride * inner.count) {
      inner.count *= level.count;
      return;
    }
  }
  slice.levels.push_back(level);
}

// All quantities are in bits, because of sub-byte types. No product overflows: each is at most the tensor's size in
// bits, which validate() has checked. The caller handles empty slices.
void lay_out(Slice& slice, std::span<const std::uint64_t> shape, const std::vector<Range>& ranges, unsigned bits) {
  std::uint64_t src_stride = bits;
  std::uint64_t dst_stride = bits;
  slice.run_bytes = bits;
  for (std::size_t d = shape.size(); d-- > 0;) {
    const Range& range = ranges[d];
    slice.src_begin += range.first * src_stride;
    if (range.count > 1) {
      if (range.backwards) slice.dst_begin += (range.count - 1) * dst_stride;
      add_level(slice, {range.count, range.step * src_stride, dst_stride, range.backwards});
    }
    src_stride *= shape[d];
    dst_stride *= range.count;
  }
  slice.bytes = dst_stride;
}

// The destination has no gaps, so if all runs are whole bytes, its offsets are too.
bool in_whole_bytes(const Slice& slice) {
  const auto even = [](std::uint64_t value) { return value % 8 == 0; };
  return even(slice.run_bytes) && even(slice.src_begin) &&
         std::all_of(slice.levels.begin(), slice.levels.end(),
                     [&](const SliceLevel& level) { return even(level.src_stride); });
}

void to_bytes(Slice& slice) {
  slice.bytes /= 8;
  slice.run_bytes /= 8;
  slice.src_begin /= 8;
  slice.dst_begin /= 8;
  for (SliceLevel& level : slice.levels) {
    level.src_stride /= 8;
    level.dst_stride /= 8;
  }
}

// Returns the slice of a whole tensor of an unknown dtype. Throws for a part, because the element size is unknown.
Slice whole(const Tensor& tensor, const std::vector<Range>& ranges) {
  Slice slice;
  slice.shape.assign(tensor.shape().begin(), tensor.shape().end());
  for (std::size_t d = 0; d < ranges.size(); ++d) {
    if (ranges[d].count != slice.shape[d] || (ranges[d].backwards && ranges[d].count > 1)) {
      fail(Status::unsupported, "tensor {}: cannot slice dtype {}, which this build does not know",
           in_quotes(tensor.name()), in_quotes(tensor.dtype_name()));
    }
  }
  slice.bytes = slice.run_bytes = tensor.bytes();
  return slice;
}

template <std::size_t kBytes>
void copy_fixed(std::uint64_t count, const std::byte* src, std::uint64_t src_stride, std::byte* dst,
                std::ptrdiff_t dst_stride) {
  for (; count > 0; --count, src += src_stride, dst += dst_stride) std::memcpy(dst, src, kBytes);
}

// The length is a constant for each element size, so copying a column takes one load and one store per row.
void copy_runs(std::uint64_t run, std::uint64_t count, const std::byte* src, std::uint64_t src_stride, std::byte* dst,
               std::ptrdiff_t dst_stride) {
  switch (run) {
    case 1: return copy_fixed<1>(count, src, src_stride, dst, dst_stride);
    case 2: return copy_fixed<2>(count, src, src_stride, dst, dst_stride);
    case 4: return copy_fixed<4>(count, src, src_stride, dst, dst_stride);
    case 8: return copy_fixed<8>(count, src, src_stride, dst, dst_stride);
    case 16: return copy_fixed<16>(count, src, src_stride, dst, dst_stride);
    default:
      for (; count > 0; --count, src += src_stride, dst += dst_stride)
        std::memcpy(dst, src, static_cast<std::size_t>(run));
  }
}

}  // namespace

Slice slice(const Tensor& tensor, const std::int64_t* begin, const std::int64_t* end, const std::int64_t* step) {
  const auto shape = tensor.shape();
  std::vector<Range> ranges(shape.size());
  Slice slice;
  slice.shape.resize(shape.size());
  for (std::size_t d = 0; d < shape.size(); ++d) {
    const std::int64_t by = step == nullptr ? 1 : step[d];
    if (by == 0) fail(Status::argument, "tensor {}: the step of dimension {} is 0", in_quotes(tensor.name()), d);
    ranges[d] = range_of(begin == nullptr ? nullptr : begin + d, end == nullptr ? nullptr : end + d, by, shape[d]);
    slice.shape[d] = ranges[d].count;
  }
  const unsigned bits = info(tensor.dtype()).bits;
  if (bits == 0) return whole(tensor, ranges);
  if (std::find(slice.shape.begin(), slice.shape.end(), 0) != slice.shape.end()) return slice;
  lay_out(slice, shape, ranges, bits);
  if (!in_whole_bytes(slice)) {
    fail(Status::misaligned, "tensor {}: the slice begins or ends inside a byte, because {} has {} bits",
         in_quotes(tensor.name()), info(tensor.dtype()).name, bits);
  }
  to_bytes(slice);
  return slice;
}

std::uint64_t run_count(const Slice& slice) {
  std::uint64_t runs = slice.bytes == 0 ? 0 : 1;
  for (const SliceLevel& level : slice.levels) runs *= level.count;
  return runs;
}

Run run_at(const Slice& slice, std::uint64_t number) {
  std::uint64_t src = slice.src_begin;
  std::uint64_t dst = slice.dst_begin;
  for (const SliceLevel& level : slice.levels) {
    const std::uint64_t i = number % level.count;
    number /= level.count;
    src += i * level.src_stride;
    dst += level.backwards ? 0 - i * level.dst_stride : i * level.dst_stride;
  }
  return {src, dst};
}

std::uint64_t extent(const Slice& slice) {
  return run_at(slice, run_count(slice) - 1).src + slice.run_bytes - slice.src_begin;
}

std::uint64_t first_run_after(const Slice& slice, std::uint64_t position) {
  std::uint64_t low = 0;
  std::uint64_t high = run_count(slice);
  while (low < high) {
    const std::uint64_t middle = low + (high - low) / 2;
    if (run_at(slice, middle).src + slice.run_bytes > position) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

std::vector<Slice> slices_of_runs(const Slice& slice, std::uint64_t first, std::uint64_t count) {
  std::vector<Slice> parts;
  while (count > 0) {
    // As many levels as the next runs fill, and a part of the level around them.
    std::size_t whole = 0;
    std::uint64_t unit = 1;  // runs in these levels
    for (; whole < slice.levels.size(); ++whole) {
      const std::uint64_t larger = unit * slice.levels[whole].count;
      if (first % larger != 0 || larger > count) break;
      unit = larger;
    }
    Slice part;
    const Run run = run_at(slice, first);
    part.src_begin = run.src;
    part.dst_begin = run.dst;
    part.run_bytes = slice.run_bytes;
    part.levels.assign(slice.levels.begin(), slice.levels.begin() + static_cast<std::ptrdiff_t>(whole));
    if (whole < slice.levels.size()) {
      SliceLevel level = slice.levels[whole];
      level.count = std::min(count / unit, level.count - first / unit % level.count);
      if (level.count > 1) part.levels.push_back(level);
      unit *= level.count;
    }
    part.bytes = unit * slice.run_bytes;
    parts.push_back(std::move(part));
    first += unit;
    count -= unit;
  }
  return parts;
}

std::uint64_t runs_within_gap(const Slice& slice, std::uint64_t max_gap) {
  std::uint64_t runs = 1;
  std::uint64_t extent = slice.run_bytes;
  for (const SliceLevel& level : slice.levels) {
    if (level.src_stride - extent > max_gap) break;
    runs *= level.count;
    extent += (level.count - 1) * level.src_stride;
  }
  return runs;
}

std::uint64_t runs_that_fit(const Slice& slice, std::uint64_t first, std::uint64_t most, std::uint64_t room) {
  const std::uint64_t begin = run_at(slice, first).src;
  std::uint64_t fits = 1;
  std::uint64_t too_many = most + 1;
  while (too_many - fits > 1) {
    const std::uint64_t tried = fits + (too_many - fits) / 2;
    const std::uint64_t end = run_at(slice, first + tried - 1).src + slice.run_bytes;
    (end - begin <= room ? fits : too_many) = tried;
  }
  return fits;
}

Row row_at(const Slice& slice, std::uint64_t first, std::uint64_t most) {
  const Run run = run_at(slice, first);
  if (slice.levels.empty()) return {1, run.dst};
  const SliceLevel& inner = slice.levels.front();
  const std::uint64_t runs = std::min(most, inner.count - first % inner.count);
  return {runs, inner.backwards ? run.dst - (runs - 1) * inner.dst_stride : run.dst};
}

void gather(const Slice& slice, std::uint64_t first, std::uint64_t count, const std::byte* window, std::byte* dst,
            std::uint64_t dst_begin) {
  const std::uint64_t origin = run_at(slice, first).src;
  if (slice.levels.empty()) {
    std::memcpy(dst + (slice.dst_begin - dst_begin), window, static_cast<std::size_t>(slice.run_bytes));
    return;
  }
  const SliceLevel& inner = slice.levels.front();
  const auto stride = static_cast<std::ptrdiff_t>(inner.dst_stride);
  while (count > 0) {
    const Run run = run_at(slice, first);
    const std::uint64_t n = std::min(count, inner.count - first % inner.count);
    copy_runs(slice.run_bytes, n, window + (run.src - origin), inner.src_stride, dst + (run.dst - dst_begin),
              inner.backwards ? -stride : stride);
    first += n;
    count -= n;
  }
}

}  // namespace st::format
