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

}  // namespace
}  // namespace st::core::written_ranges_test
