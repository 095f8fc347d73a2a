// A dtype is recognized by its whole name, byte for byte.
// SPDX-License-Identifier: Apache-2.0
#include "base/dtype.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <string_view>

namespace st::dtype_test {
namespace {

Dtype expected(std::string_view name) {
  for (const DtypeInfo& known : kDtypes) {
    if (known.name == name && known.dtype != Dtype::unknown) return known.dtype;
  }
  return Dtype::unknown;
}

TEST(DtypeName, EachIsFoundAndNoneThatDiffersInAByteOrInLength) {
  EXPECT_EQ(dtype_from_name(""), Dtype::unknown);
  for (const DtypeInfo& known : kDtypes) {
    const std::string name(known.name);
    EXPECT_EQ(info(known.dtype).name, name);
    EXPECT_EQ(dtype_from_name(name), known.dtype);
    for (std::size_t size = 0; size < name.size(); ++size) {
      EXPECT_EQ(dtype_from_name(name.substr(0, size)), expected(name.substr(0, size))) << name << ' ' << size;
    }
    for (int byte = 0; byte < 256; ++byte) {
      const char c = static_cast<char>(byte);
      EXPECT_EQ(dtype_from_name(name + c), expected(name + c)) << name << ' ' << byte;
      EXPECT_EQ(dtype_from_name(c + name), expected(c + name)) << name << ' ' << byte;
      for (std::size_t at = 0; at < name.size(); ++at) {
        std::string other = name;
        other[at] = c;
        EXPECT_EQ(dtype_from_name(other), expected(other)) << name << ' ' << at << ' ' << byte;
      }
    }
  }
}

// The columns that tests of their users do not cover.
TEST(DtypeTable, HasARowOfUniqueNamesForEachDtype) {
  std::set<unsigned> orders;
  std::set<std::string_view> names;
  for (const DtypeInfo& known : kDtypes) {
    if (known.dtype == Dtype::unknown) continue;
    EXPECT_TRUE(orders.insert(known.write_order).second) << known.name;
    EXPECT_LT(known.write_order, kDtypes.size() - 1) << known.name;
    for (const std::string_view name : {known.name, known.numpy, known.torch}) {
      EXPECT_TRUE(name.empty() || names.insert(name).second) << name;
    }
    const std::size_t digits = known.numpy.size() > 1 ? static_cast<std::size_t>(known.numpy[1] - '0') : 0;
    EXPECT_TRUE(known.numpy.empty() || digits * 8 == known.bits) << known.name;
  }
}

}  // namespace
}  // namespace st::dtype_test
