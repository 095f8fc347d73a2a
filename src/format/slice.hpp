// Slices of tensors: begin, end and step per dimension, as in Python, and the positions of the bytes.
//
// A slice is a loop nest over runs of bytes, not a list of runs: a column of ten million rows is one level {10,000,000
// times, every 8 bytes}. Dimensions with uniform strides are folded into one level, so a whole tensor, or its first
// rows, is a single run.
//
// Runs are numbered in the order of the file. A negative step reverses the order in the destination, not in the file.
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
  std::uint64_t bytes = 0;      // of the packed result
  std::uint64_t src_begin = 0;  // the first run, relative to the tensor
  std::uint64_t dst_begin = 0;  // its place in the destination
  std::uint64_t run_bytes = 0;
  std::vector<SliceLevel> levels;  // the innermost first; none: a single run

  bool contiguous() const { return levels.empty(); }
};

// Each array has one value per dimension. As in numpy, negative values count from the end, and out-of-range values are
// clamped. A null begin or end is open (":"); a null step is all ones. Throws
//   Status::argument     for a step of 0,
//   Status::misaligned   if runs of a sub-byte type begin or end inside a byte,
//   Status::unsupported  for a part of a tensor of an unknown dtype.
Slice slice(const Tensor& tensor, const std::int64_t* begin, const std::int64_t* end, const std::int64_t* step);

std::uint64_t run_count(const Slice& slice);

struct Run {
  std::uint64_t src = 0;  // relative to the tensor
  std::uint64_t dst = 0;  // relative to the destination
};

Run run_at(const Slice& slice, std::uint64_t number);

// Returns the bytes from the first run to the end of the last one, with the gaps in between.
std::uint64_t extent(const Slice& slice);

// Returns the number of the first run that ends after this position, or run_count() if there is none.
std::uint64_t first_run_after(const Slice& slice, std::uint64_t position);

// Returns slices for the same destination that together are `count` runs of this one, starting at `first`: at most two
// for each level, and one more.
std::vector<Slice> slices_of_runs(const Slice& slice, std::uint64_t first, std::uint64_t count);

// Returns the largest n such that no group of n runs contains a gap of more than `max_gap` bytes. Groups begin at
// multiples of n.
std::uint64_t runs_within_gap(const Slice& slice, std::uint64_t max_gap);

// Returns the number of runs, starting at `first`, that fit in `room` bytes: at least 1, at most `most`.
std::uint64_t runs_that_fit(const Slice& slice, std::uint64_t first, std::uint64_t most, std::uint64_t room);

// Copies `count` runs, starting at `first`, to their places in the destination. `window` contains the tensor's bytes
// from run_at(first).src on. `dst` points to dst_begin in the destination.
void gather(const Slice& slice, std::uint64_t first, std::uint64_t count, const std::byte* window, std::byte* dst,
            std::uint64_t dst_begin = 0);

// At most `most` runs, starting at `first`, that are contiguous in the destination. dst: the position of their first
// byte.
struct Row {
  std::uint64_t runs;
  std::uint64_t dst;
};
Row row_at(const Slice& slice, std::uint64_t first, std::uint64_t most);

}  // namespace st::format
