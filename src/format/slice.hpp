// A part of a tensor, begin/end/step per dimension as in Python, and where its bytes lie.
//
// A slice is a loop nest over runs of bytes and never a list of them: a column of ten million rows is one level
// {10,000,000 times, every 8 bytes}. Dimensions that follow one another evenly are folded into one level, so that a
// whole tensor, or some of its first rows, is a single run.
//
// Runs are numbered in the order of the file, ascending, whatever the signs of the steps: a negative step turns the
// order in the destination around and not the reading.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "format/table.hpp"

namespace st::format {

struct SliceLevel {
  std::uint64_t count = 0;       // at least 2
  std::uint64_t src_stride = 0;  // bytes
  std::uint64_t dst_stride = 0;
  bool backwards = false;  // in the destination
};

struct Slice {
  std::vector<std::uint64_t> shape;
  std::uint64_t bytes = 0;      // of the result, which is packed
  std::uint64_t src_begin = 0;  // the first run, relative to the tensor
  std::uint64_t dst_begin = 0;  // and where it goes
  std::uint64_t run_bytes = 0;
  std::vector<SliceLevel> levels;  // the innermost first; none: a single run

  bool contiguous() const { return levels.empty(); }
};

// One value per dimension in each array. Negative values count from the end and what lies outside is cut off, as
// numpy does; a null begin or end is open (":"), a null step is all ones. Throws Status::argument for a step of 0,
// Status::misaligned where runs of a sub-byte type begin or end inside a byte, and Status::unsupported for a part of
// a tensor whose dtype this build does not know.
Slice slice(const Tensor& tensor, const std::int64_t* begin, const std::int64_t* end, const std::int64_t* step);

std::uint64_t run_count(const Slice& slice);

struct Run {
  std::uint64_t src = 0;  // relative to the tensor
  std::uint64_t dst = 0;  // relative to the destination
};

Run run_at(const Slice& slice, std::uint64_t number);

// How many runs, counted from a multiple of itself, follow one another with at most `max_gap` bytes between them.
std::uint64_t runs_within_gap(const Slice& slice, std::uint64_t max_gap);

// How many runs from `first` on, at most `most`, lie within `room` bytes; at least 1.
std::uint64_t runs_that_fit(const Slice& slice, std::uint64_t first, std::uint64_t most, std::uint64_t room);

// Copies `count` runs from `first` on to their places in the destination. `window` holds the tensor's bytes from
// run_at(first).src on, `dst` those of the destination from dst_begin on.
void gather(const Slice& slice, std::uint64_t first, std::uint64_t count, const std::byte* window, std::byte* dst,
            std::uint64_t dst_begin = 0);

// Runs that lie side by side in the destination, from `first` on and `most` at most, and where the first byte of them
// lies there.
struct Row {
  std::uint64_t runs;
  std::uint64_t dst;
};
Row row_at(const Slice& slice, std::uint64_t first, std::uint64_t most);

}  // namespace st::format
