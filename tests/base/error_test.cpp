// Names in messages: one line, nothing that a terminal obeys.
// SPDX-License-Identifier: Apache-2.0
#include "base/error.hpp"

#include <gtest/gtest.h>

namespace st {
namespace {

struct Case {
  std::string_view name;
  std::string_view shown;
};

constexpr Case kCases[] = {
    {"", "''"},
    {"h.0.w", "'h.0.w'"},
    {"\xe6\xbc\xa2\xf0\x9f\x98\x80", "'\xe6\xbc\xa2\xf0\x9f\x98\x80'"},
    {"a\nb\x1b[2J\x7f", R"('a\x0ab\x1b[2J\x7f')"},
    {"\xc2\x85|\xc2\x9b[2J", R"('\u0085|\u009b[2J')"},
    {"\xe2\x80\xa8|\xe2\x80\xa9", R"('\u2028|\u2029')"},
    {"\xe2\x80\xaegnp.exe", R"('\u202egnp.exe')"},
    {"\xe2\x81\xa6|\xe2\x80\x8f|\xd8\x9c", R"('\u2066|\u200f|\u061c')"},
    {"\x9b[2J", R"('\x9b[2J')"},
    {"\xe0\x81\xa1|\xed\xa0\x80|\xf4\x90\x80\x80", R"('\xe0\x81\xa1|\xed\xa0\x80|\xf4\x90\x80\x80')"},
    {"\xc2|\xe2\x80|\xff", R"('\xc2|\xe2\x80|\xff')"},
};

TEST(Quoted, NothingThatATerminalObeys) {
  for (const Case& c : kCases) EXPECT_EQ(st::in_quotes(c.name), c.shown);
}

TEST(Quoted, BytesThatOnlyContinueAreCutLikeTheRest) {
  EXPECT_LT(st::in_quotes(std::string(100'000, '\x80')).size(), 90U);
}

}  // namespace
}  // namespace st
