// Records of which bytes of tensors were written.
// SPDX-License-Identifier: Apache-2.0
#include "core/written_ranges.hpp"

#include <gtest/gtest.h>

namespace st::core::written_ranges_test {
namespace {

// If there is no earlier range, the memory after the object must not be taken for one.
TEST(WrittenRanges, TheFirstRangeHasNoneBeforeIt) {
  struct {
    WrittenRanges ranges;
    std::uint64_t behind = 7;
  } both;
  both.ranges.reset(1);
  EXPECT_EQ(both.ranges.claim(0, {7, 9}), std::nullopt);
  EXPECT_EQ(both.behind, 7U);
  EXPECT_EQ(both.ranges.missing(0, {0, 10}), 8U);
  EXPECT_EQ(both.ranges.claim(0, {0, 7}), std::nullopt);
  EXPECT_EQ(both.ranges.missing(0, {0, 10}), 1U);
}

TEST(WrittenRanges, GapsBetweenRangesAreMissing) {
  WrittenRanges ranges;
  ranges.reset(2);
  for (const ByteRange range : {ByteRange{18, 19}, {15, 16}, {12, 13}}) EXPECT_EQ(ranges.claim(1, range), std::nullopt);
  EXPECT_EQ(ranges.missing(1, {10, 20}), 7U);  // nothing was put before the tensor
  EXPECT_EQ(ranges.claim(0, {0, 2}), std::nullopt);
  EXPECT_EQ(ranges.missing(1, {10, 20}), 7U);
}

TEST(WrittenRanges, AdjacentRangesAreOne) {
  for (const bool backwards : {false, true}) {
    WrittenRanges ranges;
    ranges.reset(1);
    EXPECT_EQ(ranges.claim(0, backwards ? ByteRange{5, 10} : ByteRange{0, 5}), std::nullopt);
    EXPECT_EQ(ranges.claim(0, backwards ? ByteRange{0, 5} : ByteRange{5, 10}), std::nullopt);
    const auto twice = ranges.claim(0, {3, 8});
    EXPECT_TRUE(twice && twice->begin == 3 && twice->end == 8) << backwards;
  }
}

}  // namespace
}  // namespace st::core::written_ranges_test
