// The replacements for builtins, compared with the builtins.
// SPDX-License-Identifier: Apache-2.0
#include "base/checked.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <initializer_list>

namespace st::checked_test {
namespace {

constexpr std::uint64_t kMost = UINT64_MAX;
constexpr std::initializer_list<std::uint64_t> kNumbers{0,           1,           2,
                                                        3,           5,           0xFFFFFFFF,
                                                        0x100000000, 0x100000001, 0x0123456789ABCDEF,
                                                        kMost / 3,   kMost / 2,   kMost / 2 + 1,
                                                        kMost - 1,   kMost};

TEST(Checked, OverflowIsToldWithoutBuiltinsAsWithThem) {
  for (const std::uint64_t a : kNumbers) {
    for (const std::uint64_t b : kNumbers) {
      std::uint64_t expected = 0;
      std::uint64_t got = 0;
      EXPECT_EQ(plain::checked_add(a, b, got), checked_add(a, b, expected)) << a << " + " << b;
      EXPECT_EQ(got, expected) << a << " + " << b;
      EXPECT_EQ(plain::checked_mul(a, b, got), checked_mul(a, b, expected)) << a << " * " << b;
      EXPECT_EQ(got, expected) << a << " * " << b;
    }
  }
  std::uint64_t result = 0;
  EXPECT_FALSE(plain::checked_mul(0x100000000, 0x100000000, result));
  EXPECT_TRUE(plain::checked_mul(0xFFFFFFFF, 0x100000001, result));
  EXPECT_EQ(result, kMost);
}

TEST(Checked, BytesAreReversed) {
  EXPECT_EQ(plain::reversed_bytes(0x0123456789ABCDEF), 0xEFCDAB8967452301U);
  for (const std::uint64_t value : kNumbers) EXPECT_EQ(plain::reversed_bytes(value), reversed_bytes(value));
}

}  // namespace
}  // namespace st::checked_test
