// Finds the first bad byte of a text.
// SPDX-License-Identifier: Apache-2.0
#include "format/utf8.hpp"

#include <gtest/gtest.h>

#include <string>

namespace st::format::utf8_test {
namespace {

using namespace std::string_view_literals;

struct Bad {
  const char* name;
  std::string_view bytes;
};
constexpr Bad kBad[] = {
    {"a lone continuation", "\x80"sv},
    {"a continuation too many", "\xBF"sv},
    {"an overlong slash", "\xC0\xAF"sv},
    {"an overlong NUL", "\xC0\x80"sv},
    {"an overlong form of three bytes", "\xE0\x80\x80"sv},
    {"an overlong form of four bytes", "\xF0\x80\x80\x80"sv},
    {"the first surrogate", "\xED\xA0\x80"sv},
    {"the last surrogate", "\xED\xBF\xBF"sv},
    {"beyond U+10FFFF", "\xF4\x90\x80\x80"sv},
    {"a byte that is never used", "\xF5"sv},
    {"0xFE", "\xFE"sv},
    {"0xFF", "\xFF"sv},
    {"two bytes cut to one", "\xC3"sv},
    {"three bytes cut to two", "\xE2\x82"sv},
    {"four bytes cut to three", "\xF0\x9F\x98"sv},
};
constexpr std::string_view kGood[] = {""sv,
                                      "a"sv,
                                      "\0"sv,
                                      "\x7F"sv,
                                      "\xC2\x80"sv,
                                      "\xDF\xBF"sv,
                                      "\xE0\xA0\x80"sv,
                                      "\xED\x9F\xBF"sv,
                                      "\xEE\x80\x80"sv,
                                      "\xEF\xBF\xBF"sv,
                                      "\xF0\x90\x80\x80"sv,
                                      "\xF4\x8F\xBF\xBF"sv};

TEST(Utf8, GoodTextIsGoodWhereverItStands) {
  for (const std::string_view good : kGood) {
    for (std::size_t before = 0; before < 130; ++before) {
      EXPECT_TRUE(is_utf8(std::string(before, 'x') + std::string(good)));
      EXPECT_TRUE(is_utf8(std::string(before, 'x') + std::string(good) + "y"));
    }
  }
}

TEST(Utf8, TheFirstBadByteIsFoundWhereverItStands) {
  for (const Bad& bad : kBad) {
    for (const std::string_view filler : {"x"sv, "\xC3\xA9"sv, "\xE2\x82\xAC"sv, "\xF0\x9F\x98\x80"sv}) {
      std::string before;
      while (before.size() < 150) {
        for (const std::string_view after : {""sv, "y"sv, "\xC3\xA9 and more text behind it"sv, "\xFF"sv}) {
          const std::string text = before + std::string(bad.bytes) + std::string(after);
          ASSERT_FALSE(is_utf8(text)) << bad.name;
          ASSERT_EQ(first_not_utf8(text), before.size()) << bad.name << " after " << before.size() << " bytes";
        }
        before += filler;
      }
    }
  }
}

// A long text is searched in pieces, and a piece may not end inside a character.
TEST(Utf8, TheFirstBadByteOfALongText) {
  for (const std::string_view filler : {"x"sv, "\xC3\xA9"sv, "\xE2\x82\xAC"sv, "\xF0\x9F\x98\x80"sv}) {
    for (const std::size_t about : {65'530U, 65'536U, 1'048'570U, 1'048'576U, 1'048'580U, 2'100'000U, 3'000'001U}) {
      std::string text;
      while (text.size() < about) text += filler;
      const std::size_t place = text.size();
      EXPECT_TRUE(is_utf8(text));
      text += "\xED\xA0\x80 and a second one \xFF";
      EXPECT_EQ(first_not_utf8(text), place);
    }
  }
}

}  // namespace
}  // namespace st::format::utf8_test
