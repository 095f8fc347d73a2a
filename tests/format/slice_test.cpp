// Slices as loop nests: folding, rejected slices, and a size independent of the tensor's size.
// tests/reference/slices.py compares 50,000 random slices with numpy.
// SPDX-License-Identifier: Apache-2.0
#include "format/slice.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/checked.hpp"
#include "base/error.hpp"

namespace st::format::slice_test {
namespace {

using Dims = std::vector<std::uint64_t>;
using Positions = std::vector<std::int64_t>;

Tensor tensor_of(Dtype dtype, const Dims& dims) {
  Tensor tensor;
  tensor.name_text = "t";
  tensor.name_bytes = 1;
  tensor.dims = dims.data();
  tensor.rank = static_cast<std::uint32_t>(dims.size());
  tensor.dtype_number = static_cast<std::uint32_t>(dtype) & 31U;
  tensor.end = element_count(dims).value() * info(dtype).bits / 8;
  return tensor;
}

struct Folding {
  const char* name;
  Dtype dtype;
  Dims dims;
  Positions begin, end, step;
  std::size_t levels;
  std::uint64_t run_bytes;
  std::uint64_t runs;
};

const std::vector<Folding> kFoldings = {
    {"the whole is one run", Dtype::F32, {3, 4, 5}, {0, 0, 0}, {3, 4, 5}, {1, 1, 1}, 0, 240, 1},
    {"first rows are one run", Dtype::F32, {3, 4, 5}, {1, 0, 0}, {3, 4, 5}, {1, 1, 1}, 0, 160, 1},
    {"a scalar", Dtype::F64, {}, {}, {}, {}, 0, 8, 1},
    {"a column is one level", Dtype::F32, {10'000'000, 2}, {0, 1}, {10'000'000, 2}, {1, 1}, 1, 4, 10'000'000},
    {"two dimensions of a column fold", Dtype::F32, {3, 4, 5}, {0, 0, 2}, {3, 4, 3}, {1, 1, 1}, 1, 4, 12},
    {"columns of some rows do not", Dtype::F32, {3, 4, 5}, {0, 1, 2}, {3, 3, 3}, {1, 1, 1}, 2, 4, 6},
    {"every second element", Dtype::U8, {8}, {0}, {8}, {2}, 1, 1, 4},
    {"dimensions of one vanish", Dtype::U8, {1, 8, 1}, {0, 2, 0}, {1, 6, -2}, {7, 1, -3}, 0, 4, 1},
    {"all backwards is one level", Dtype::U8, {3, 4}, {2, 3}, {-9, -9}, {-1, -1}, 1, 1, 12},
    {"nothing", Dtype::U8, {3, 4}, {2, 0}, {1, 4}, {1, 1}, 0, 0, 0},
};

TEST(Slice, Folds) {
  for (const Folding& row : kFoldings) {
    SCOPED_TRACE(row.name);
    const Slice slice =
        format::slice(tensor_of(row.dtype, row.dims), row.begin.data(), row.end.data(), row.step.data());
    EXPECT_EQ(slice.levels.size(), row.levels);
    EXPECT_EQ(slice.run_bytes, row.run_bytes);
    EXPECT_EQ(run_count(slice), row.runs);
    EXPECT_EQ(slice.bytes, row.runs * row.run_bytes);
  }
}

struct Refusal {
  const char* name;
  Dtype dtype;
  Dims dims;
  Positions begin, end, step;
  Status status;
};

const std::vector<Refusal> kRefusals = {
    {"a step of nothing", Dtype::F32, {4}, {0}, {4}, {0}, Status::argument},
    {"half a byte", Dtype::F4, {4, 4}, {0, 0}, {4, 1}, {1, 1}, Status::misaligned},
    {"every second half byte", Dtype::F4, {4, 4}, {0, 0}, {4, 4}, {1, 2}, Status::misaligned},
    {"rows of a byte and a half", Dtype::F4, {4, 3}, {1, 0}, {3, 3}, {1, 1}, Status::misaligned},
    {"columns of whole bytes in such rows", Dtype::F4, {4, 3}, {0, 0}, {4, 2}, {1, 1}, Status::misaligned},
    {"every second such row", Dtype::F4, {4, 3}, {0, 0}, {4, 3}, {2, 1}, Status::misaligned},
    {"six bits", Dtype::F6_E2M3, {4, 4}, {0, 0}, {4, 1}, {1, 1}, Status::misaligned},
    {"four bits turned around", Dtype::F4, {4}, {3}, {-5}, {-1}, Status::misaligned},
};

TEST(Slice, Refuses) {
  for (const Refusal& row : kRefusals) {
    SCOPED_TRACE(row.name);
    try {
      (void)format::slice(tensor_of(row.dtype, row.dims), row.begin.data(), row.end.data(), row.step.data());
      ADD_FAILURE() << "was taken";
    } catch (const Error& error) {
      EXPECT_EQ(error.status, row.status) << error.message;
      EXPECT_NE(error.message.find("tensor 't'"), std::string::npos);
    }
  }
}

TEST(Slice, TakesPartsOfSubByteTensorsThatAreWholeBytes) {
  const Dims dims{4, 3};
  const Positions begin{2, 0}, end{4, 3};
  const Slice slice = format::slice(tensor_of(Dtype::F4, dims), begin.data(), end.data(), nullptr);
  EXPECT_EQ(slice.src_begin, 3U);
  EXPECT_EQ(slice.bytes, 3U);
}

TEST(Slice, SurvivesTheLargestShapes) {
  const Dims huge{std::uint64_t{1} << 30, std::uint64_t{1} << 30};  // 2^60 bytes
  const Positions begin{INT64_MIN, 1}, end{INT64_MAX, 2};
  const Slice column = format::slice(tensor_of(Dtype::U8, huge), begin.data(), end.data(), nullptr);
  EXPECT_EQ(run_count(column), huge[0]);
  EXPECT_EQ(run_at(column, huge[0] - 1).src, (huge[0] - 1) * huge[1] + 1);
  EXPECT_EQ(runs_that_fit(column, 5, 1000, 3 * huge[1] + 1), 4U);

  const Dims hollow{0, UINT64_MAX, UINT64_MAX};
  const Slice none = format::slice(tensor_of(Dtype::U8, hollow), nullptr, nullptr, nullptr);
  EXPECT_EQ(none.bytes, 0U);
  EXPECT_EQ(none.shape, hollow);
}

// Only a tensor without elements has such dimensions, or one whose dtype is unknown.
TEST(Slice, TheEndsOfADimensionAreThoseOfAnyLength) {
  for (const std::uint64_t length : {(std::uint64_t{1} << 63) - 1, std::uint64_t{1} << 63, (std::uint64_t{1} << 63) + 1,
                                     UINT64_MAX - 1, UINT64_MAX}) {
    SCOPED_TRACE(length);
    const Dims dims{length, 0};
    const Tensor tensor = tensor_of(Dtype::U8, dims);
    const Positions first{INT64_MIN, 0}, last{INT64_MAX, 0}, forwards{1, 1}, backwards{-1, 1}, second{2, 1};
    EXPECT_EQ(format::slice(tensor, first.data(), last.data(), forwards.data()).shape, dims);
    EXPECT_EQ(format::slice(tensor, last.data(), first.data(), backwards.data()).shape, dims);
    EXPECT_EQ(format::slice(tensor, first.data(), last.data(), second.data()).shape[0], (length - 1) / 2 + 1);
    EXPECT_EQ(format::slice(tensor, first.data(), first.data(), forwards.data()).shape[0], 0U);
    EXPECT_EQ(format::slice(tensor, last.data(), last.data(), forwards.data()).shape[0], 0U);
  }
}

TEST(Slice, SaysNothingOfDtypesItDoesNotKnow) {
  const Dims dims{4};
  Tensor tensor = tensor_of(Dtype::U8, dims);
  const char name[] = "F128";
  const std::uint64_t with_name[] = {4, reinterpret_cast<std::uintptr_t>(name)};
  tensor.dims = with_name;
  tensor.dtype_number = 0;
  tensor.end = 64;
  EXPECT_EQ(format::slice(tensor, nullptr, nullptr, nullptr).bytes, 64U);
  const std::int64_t one = 1;
  EXPECT_THROW((void)format::slice(tensor, &one, nullptr, nullptr), Error);
  const std::int64_t back = -1;
  EXPECT_THROW((void)format::slice(tensor, nullptr, nullptr, &back), Error);
  const std::uint64_t alone[] = {1, reinterpret_cast<std::uintptr_t>(name)};
  tensor.dims = alone;
  EXPECT_EQ(format::slice(tensor, nullptr, nullptr, &back).bytes, 64U);  // one element backwards is the whole
}

TEST(Slice, GathersASingleRun) {
  const Dims dims{6};
  const Positions begin{2}, end{5};
  const Slice slice = format::slice(tensor_of(Dtype::U8, dims), begin.data(), end.data(), nullptr);
  const std::string from = "abcdef";
  std::string to = "...";
  gather(slice, 0, 1, reinterpret_cast<const std::byte*>(from.data() + slice.src_begin),
         reinterpret_cast<std::byte*>(to.data()));
  EXPECT_EQ(to, "cde");
  EXPECT_TRUE(slice.contiguous());
  EXPECT_EQ(row_at(slice, 0, 1).runs, 1U);
  Slice part = slice;  // part of a larger slice: the destination holds its bytes from 6 on
  part.dst_begin = 7;
  to = "....";
  gather(part, 0, 1, reinterpret_cast<const std::byte*>(from.data() + slice.src_begin),
         reinterpret_cast<std::byte*>(to.data()), 6);
  EXPECT_EQ(to, ".cde");
}

// The positions as Python counts them: one by one.
TEST(Slice, SelectsWhatPythonDoes) {
  const std::string from = "abcd";
  for (const std::int64_t step : {1, 2, 3, 5, -1, -2, -3, -5}) {
    for (std::int64_t begin = -6; begin <= 6; ++begin) {
      for (std::int64_t end = -6; end <= 6; ++end) {
        const Dims dims{4};
        const Slice slice = format::slice(tensor_of(Dtype::U8, dims), &begin, &end, &step);
        std::string expected, to(static_cast<std::size_t>(slice.bytes), '.');
        const auto position = [&](std::int64_t value) {
          return std::clamp<std::int64_t>(value < 0 ? value + 4 : value, step < 0 ? -1 : 0, step < 0 ? 3 : 4);
        };
        for (std::int64_t i = position(begin); step < 0 ? i > position(end) : i < position(end); i += step) {
          expected += from[static_cast<std::size_t>(i)];
        }
        if (slice.bytes != 0) {
          gather(slice, 0, run_count(slice), reinterpret_cast<const std::byte*>(from.data() + run_at(slice, 0).src),
                 reinterpret_cast<std::byte*>(to.data()));
        }
        EXPECT_EQ(to, expected) << begin << ':' << end << ':' << step;
      }
    }
  }
}

TEST(Slice, TheGapBetweenRowsEndsWhereTheirLastRunDoes) {
  const Dims dims{2, 4, 10};
  const Positions begin{0, 0, 0}, end{2, 3, 4};
  const Slice slice = format::slice(tensor_of(Dtype::U8, dims), begin.data(), end.data(), nullptr);
  EXPECT_EQ(runs_within_gap(slice, 5), 1U);
  EXPECT_EQ(runs_within_gap(slice, 6), 3U);
  EXPECT_EQ(runs_within_gap(slice, 15), 3U);
  EXPECT_EQ(runs_within_gap(slice, 16), 6U);
  EXPECT_EQ(row_at(slice, 1, 6).runs, 2U);
}

TEST(Slice, GathersAcrossRows) {
  const Dims dims{3, 5};
  const Positions begin{0, 0}, end{3, 5}, step{1, 2};
  const Slice slice = format::slice(tensor_of(Dtype::U8, dims), begin.data(), end.data(), step.data());
  std::vector<std::byte> from(15), to(9, std::byte{99});
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i);
  for (std::uint64_t first = 0, n = 0; first < 9; first += n) {  // in pieces that end inside rows
    n = std::min<std::uint64_t>(4, 9 - first);
    gather(slice, first, n, from.data() + run_at(slice, first).src, to.data());
  }
  const std::vector<int> wanted{0, 2, 4, 5, 7, 9, 10, 12, 14};
  for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_EQ(static_cast<int>(to[i]), wanted[i]);
}

TEST(Slice, FindsRunsByTheirEnd) {
  const Dims dims = {4, 3, 8};
  const Positions begin = {0, 1, 2};
  const Positions end = {4, 3, 6};
  const Positions step = {2, 1, 1};
  const Slice cut = slice(tensor_of(Dtype::U8, dims), begin.data(), end.data(), step.data());
  ASSERT_EQ(run_count(cut), 4U);
  for (std::uint64_t position = 0; position < 96; ++position) {
    std::uint64_t expected = 0;
    while (expected < 4 && run_at(cut, expected).src + cut.run_bytes <= position) ++expected;
    EXPECT_EQ(first_run_after(cut, position), expected) << position;
  }
  EXPECT_EQ(extent(cut), run_at(cut, 3).src + 4 - cut.src_begin);
}

// Any consecutive runs are a few slices for the same destination.
TEST(Slice, IsDividedByItsRuns) {
  const Dims dims = {4, 5, 6, 2};
  const Positions begin = {-1, 0, -1, 0};
  const Positions end = {-5, 5, -7, 1};
  const Positions step = {-1, 2, -1, 1};
  const Slice whole = slice(tensor_of(Dtype::U8, dims), begin.data(), end.data(), step.data());
  const std::uint64_t runs = run_count(whole);
  for (std::uint64_t first = 0; first < runs; ++first) {
    for (std::uint64_t count = 0; first + count <= runs; ++count) {
      std::uint64_t next = first;
      const std::vector<Slice> parts = slices_of_runs(whole, first, count);
      EXPECT_LE(parts.size(), 2 * whole.levels.size() + 1);
      for (const Slice& part : parts) {
        EXPECT_EQ(part.bytes, run_count(part) * whole.run_bytes);
        for (std::uint64_t run = 0; run < run_count(part); ++run, ++next) {
          ASSERT_EQ(run_at(part, run).src, run_at(whole, next).src);
          ASSERT_EQ(run_at(part, run).dst, run_at(whole, next).dst);
        }
      }
      ASSERT_EQ(next, first + count);
    }
  }
}

}  // namespace
}  // namespace st::format::slice_test
