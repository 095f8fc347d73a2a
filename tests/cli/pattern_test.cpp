// The command's shell patterns, compared with the system's fnmatch().
// SPDX-License-Identifier: Apache-2.0
#include "pattern.hpp"

#include <fnmatch.h>

#include <array>
#include <random>

#include <gtest/gtest.h>

namespace cli {
namespace {

// "[:" and its like are always closed, because systems differ where they are not.
constexpr std::array<const char*, 19> kParts{"[",     "]",  "[", "]",        "[:alpha:]", "[:digit:]", "[=a=]",
                                             "[.b.]", "-",  "!", "^",        "*",         "?",         "a",
                                             "b",     "\\", "/", "\xC3\xA9", "0"};
// Only ASCII: in C.UTF-8, glibc's "??" matches a character of two bytes, and so does its "?".
constexpr std::string_view kBytes = "ab[]-0!^*\\/";

std::string joined(std::mt19937& random, std::size_t most) {
  std::string text;
  for (std::size_t n = 1 + random() % most; n > 0; --n) text += kParts[random() % kParts.size()];
  return text;
}

TEST(Matches, AsFnmatchDoes) {
  std::mt19937 random(1);
  int fitting = 0;
  for (int i = 0; i < 200'000; ++i) {
    const std::string pattern = joined(random, 7);
    if (!fault_of_pattern(pattern).empty()) continue;
    std::string text;
    for (std::size_t n = random() % 5; n > 0; --n) text += kBytes[random() % kBytes.size()];
    const bool expected = fnmatch(pattern.c_str(), text.c_str(), FNM_NOESCAPE) == 0;
    ASSERT_EQ(matches(pattern, text), expected) << pattern << " of " << text;
    fitting += expected ? 1 : 0;
  }
  EXPECT_GT(fitting, 1000);
}

TEST(Matches, CharactersAndNotBytes) {
  EXPECT_TRUE(matches("?.w", "\xE5\xB1\xA4.w"));
  EXPECT_FALSE(matches("??.w", "\xC3\xA9.w"));
  EXPECT_TRUE(matches("[\xC3\xA9]*", "\xC3\xA9.w"));
  EXPECT_FALSE(matches("[\xC3\xA9]*", "\xC3\xBC.w"));
  EXPECT_TRUE(matches("[\xC3\xA0-\xC3\xBF]", "\xC3\xBC"));
  EXPECT_FALSE(matches("[[:alpha:]]", "\xC3\xBC"));
}

// These once read past the pattern's end, or never returned.
TEST(Matches, AlsoPatternsWhoseBracketsAreHalfANameOfAClass) {
  EXPECT_TRUE(matches("x[x[:]", "x["));
  EXPECT_FALSE(matches("x[x[:]", "xy"));
  EXPECT_TRUE(matches("[[=a]b", "=b"));
  EXPECT_FALSE(matches("[[=a]b", "=c"));
  EXPECT_FALSE(matches("[\xC3\xA9-[=a=][]0", "b"));
}

}  // namespace
}  // namespace cli
