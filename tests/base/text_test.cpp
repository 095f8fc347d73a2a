// Names and sizes in messages: one line, without characters that control a terminal.
// SPDX-License-Identifier: Apache-2.0
#include "base/text.hpp"

#include <gtest/gtest.h>

namespace st::text_test {
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
    {"\x80|", R"('\x80|')"},
    {"\xa1|", R"('\xa1|')"},
    {std::string_view("\xc3\xa9", 1), R"('\xc3')"},
    {"\xe0\x81\xa1|\xed\xa0\x80|\xf4\x90\x80\x80", R"('\xe0\x81\xa1|\xed\xa0\x80|\xf4\x90\x80\x80')"},
    {"\xed\x9f\xbf|\xed\xbf\xbf", "'\xed\x9f\xbf|\\xed\\xbf\\xbf'"},
    {"\xc2|\xe2\x80|\xff", R"('\xc2|\xe2\x80|\xff')"},
};

TEST(Quoted, NothingThatATerminalObeys) {
  for (const Case& c : kCases) EXPECT_EQ(st::in_quotes(c.name), c.shown);
}

TEST(Quoted, BytesThatOnlyContinueAreCutLikeTheRest) {
  const std::string end = R"(\x80\x80\x80\x80\x80\x80\x80\x80)";  // two runs of four bytes
  EXPECT_EQ(st::in_quotes(std::string(100'000, '\x80')), "'" + end + "..." + end + "'");
}

// The first and last character of each escaped range, and of each length in UTF-8, and the adjacent characters.
TEST(Quoted, TheFirstAndTheLastOfEachUnsafeRange) {
  const struct {
    std::uint32_t code;
    const char* utf8;
    bool shown;
  } cases[] = {
      {0x1F, "\x1f", false},
      {0x20, " ", true},
      {0x7E, "~", true},
      {0x7F, "\x7f", false},
      {0x80, "\xc2\x80", false},
      {0x9F, "\xc2\x9f", false},
      {0xA0, "\xc2\xa0", true},
      {0x61B, "\xd8\x9b", true},
      {0x61C, "\xd8\x9c", false},
      {0x61D, "\xd8\x9d", true},
      {0x7FF, "\xdf\xbf", true},
      {0x800, "\xe0\xa0\x80", true},
      {0x200A, "\xe2\x80\x8a", true},
      {0x200B, "\xe2\x80\x8b", false},
      {0x200F, "\xe2\x80\x8f", false},
      {0x2010, "\xe2\x80\x90", true},
      {0x2027, "\xe2\x80\xa7", true},
      {0x2028, "\xe2\x80\xa8", false},
      {0x202E, "\xe2\x80\xae", false},
      {0x202F, "\xe2\x80\xaf", true},
      {0x205F, "\xe2\x81\x9f", true},
      {0x2060, "\xe2\x81\xa0", false},
      {0x206F, "\xe2\x81\xaf", false},
      {0x2070, "\xe2\x81\xb0", true},
      {0xFEFE, "\xef\xbb\xbe", true},
      {0xFEFF, "\xef\xbb\xbf", false},
      {0xFF00, "\xef\xbc\x80", true},
      {0xFFF8, "\xef\xbf\xb8", true},
      {0xFFF9, "\xef\xbf\xb9", false},
      {0xFFFB, "\xef\xbf\xbb", false},
      {0xFFFC, "\xef\xbf\xbc", true},
      {0x10000, "\xf0\x90\x80\x80", true},
      {0x10FFFF, "\xf4\x8f\xbf\xbf", true},
  };
  for (const auto& [code, utf8, shown] : cases) {
    const std::string hidden = code < 0x80 ? formatted("\\x{:02x}", code) : formatted("\\u{:04x}", code);
    EXPECT_EQ(st::in_quotes(utf8), "'" + (shown ? std::string(utf8) : hidden) + "'") << code;
  }
}

TEST(Quoted, OfWhatIsLongerThan79BytesBothEndsAreShown) {
  const std::string first(38, 'a');
  const std::string last(38, 'z');
  EXPECT_EQ(st::in_quotes(std::string(79, 'a')), "'" + std::string(79, 'a') + "'");
  EXPECT_EQ(st::in_quotes(first + "bbbb" + last), "'" + first + "..." + last + "'");
  EXPECT_EQ(st::in_quotes(first.substr(1) + "\xc3\xa9" + "bbb" + last), "'" + first.substr(1) + "..." + last + "'");
  EXPECT_EQ(st::in_quotes(first + "bbbb" + "\xc3\xa9" + last.substr(2)),
            "'" + first + "...\xc3\xa9" + last.substr(2) + "'");
  EXPECT_EQ(st::in_quotes(first + "bbb" + "\xc3\xa9" + last.substr(1)), "'" + first + "..." + last.substr(1) + "'");
  EXPECT_EQ(st::in_quotes(first + "bbb\n" + last.substr(1)), "'" + first + "..." + last.substr(1) + "'");
}

TEST(IndexName, EndsWithIndexAndJsonAndMayHaveAVariantBetween) {
  for (const std::string_view name : {"m.index.json", "m.index.fp16.json", "a/m.index.json", ".index.json"}) {
    EXPECT_TRUE(is_index_name(name)) << name;
  }
  const std::string_view cut = std::string_view(".index.json").substr(2);  // the bytes in front do not count
  for (const std::string_view name : std::initializer_list<std::string_view>{
           "m.json", "index.json", "m.index.gguf", "m.index.a.b.json", "a.index.d/m.json", "m.index.json/m", "", cut}) {
    EXPECT_FALSE(is_index_name(name)) << name;
  }
}

TEST(HumanBytes, OneDigitBehindThePointInTheUnitThatFits) {
  const struct {
    std::uint64_t bytes;
    const char* shown;
  } cases[] = {{0, "0 bytes"},
               {1, "1 bytes"},
               {999, "999 bytes"},
               {1000, "1.0 kB"},
               {1049, "1.0 kB"},
               {1051, "1.1 kB"},
               {999'949, "999.9 kB"},
               {999'950, "1.0 MB"},
               {1'000'000, "1.0 MB"},
               {999'949'999, "999.9 MB"},
               {999'950'000, "1.0 GB"},
               {1'500'000'000'000, "1.5 TB"},
               {2'000'000'000'000'000, "2.0 PB"},
               {UINT64_MAX, "18.4 EB"}};
  for (const auto& [bytes, shown] : cases) EXPECT_EQ(st::human_bytes(bytes), shown) << bytes;
}

}  // namespace
}  // namespace st::text_test
