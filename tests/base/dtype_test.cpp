// A dtype is known by its whole name, byte for byte.
// SPDX-License-Identifier: Apache-2.0
#include "base/dtype.hpp"

#include <gtest/gtest.h>

#include <string>

namespace st {
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

}  // namespace
}  // namespace st
