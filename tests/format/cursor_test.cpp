// The cursor alone: numbers, strings and skipped values, at every length and position where its loops may end.
// SPDX-License-Identifier: Apache-2.0
#include "format/json/cursor.hpp"

#include <gtest/gtest.h>

#include <charconv>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace st::format::json::cursor_test {
namespace {

// Text as the cursor requires it: followed by zeros, and then by memory that a sanitizer protects.
class Text {
 public:
  explicit Text(std::string_view text) : bytes_(text.begin(), text.end()), size_(text.size()) {
    bytes_.resize(size_ + kPadding, '\0');
    cursor_.emplace(std::span(bytes_.data(), size_), 0, &arena_);
  }
  Cursor& cursor() { return *cursor_; }

 private:
  std::vector<char> bytes_;
  std::size_t size_;
  std::pmr::monotonic_buffer_resource arena_;
  std::optional<Cursor> cursor_;
};

// The position of the error; nothing if `read` does not throw.
template <class Read>
std::optional<std::uint64_t> fault_of(const Read& read) {
  try {
    read();
  } catch (const Error& error) {
    EXPECT_EQ(error.status, Status::json) << error.message;
    return error.offset;
  }
  return std::nullopt;
}

// ---- integers ------------------------------------------------------------------------------------------------------------

std::optional<std::uint64_t> integer_of(std::string_view text, std::uint64_t* end = nullptr) {
  Text padded(text);
  Cursor& in = padded.cursor();
  std::uint64_t value = 0;
  if (!in.integer(value)) return std::nullopt;
  if (end != nullptr) *end = in.offset_of(in.behind());
  return value;
}

TEST(Integer, EveryNumberOfDigitsBeforeEveryByteThatMayFollow) {
  std::mt19937_64 random(1);
  for (std::size_t digits = 1; digits <= 20; ++digits) {
    for (int n = 0; n < 200; ++n) {
      std::string text(1, static_cast<char>('1' + random() % 9));
      while (text.size() < digits) text += static_cast<char>('0' + random() % 10);
      std::uint64_t expected = 0;
      const bool fits = std::from_chars(text.data(), text.data() + text.size(), expected).ec == std::errc{};
      for (const std::string_view after : {"", ",", "]", " ]", "}", "\n", "x", "\"", "/", ":", "\x7F"}) {
        std::uint64_t end = 0;
        const auto value = integer_of(text + std::string(after), &end);
        ASSERT_EQ(value.has_value(), fits) << text << after;
        if (!fits) continue;
        ASSERT_EQ(*value, expected) << text << after;
        ASSERT_EQ(end, digits) << text << after;
      }
    }
  }
}

TEST(Integer, Limits) {
  struct Case {
    std::string_view text;
    std::optional<std::uint64_t> value;
  };
  const Case cases[] = {
      {"0", 0},
      {"18446744073709551615", UINT64_MAX},
      {"18446744073709551616", {}},
      {"18446744073709551620", {}},
      {"99999999999999999999", {}},
      {"100000000000000000000", {}},
      {"184467440737095516150", {}},
      {"9999999", 9999999},
      {"99999999", 99999999},
      {"100000000", 100000000},
      {" \t\n\r42", 42},
      {"", {}},
      {"-0", {}},
      {"-1", {}},
      {"+1", {}},
      {"00", {}},
      {"01", {}},
      {"00000000", {}},
      {"012345678901", {}},
      {"1.0", {}},
      {"1.", {}},
      {"1e0", {}},
      {"1E0", {}},
      {"12345678.5", {}},
      {"12345678e1", {}},
      {"1234567.5", {}},
      {"1234567E1", {}},
      {".5", {}},
      {"\"1\"", {}},
      {"null", {}},
      {"x", {}},
      {"\xC2\xB1", {}},
  };
  for (const Case& given : cases) EXPECT_EQ(integer_of(given.text), given.value) << given.text;
}

TEST(Integer, NothingIsConsumedWhereThereIsNone) {
  for (const std::string_view text : {"1.5", "18446744073709551616", "01", "123456789e1", "x"}) {
    Text padded(text);
    Cursor& in = padded.cursor();
    std::uint64_t value = 0;
    EXPECT_FALSE(in.integer(value)) << text;
    EXPECT_EQ(in.offset_of(in.at()), 0U) << text;
  }
}

// ---- strings -------------------------------------------------------------------------------------------------------------

TEST(String, ASpecialByteAtEveryPlace) {
  for (std::size_t before = 0; before < 70; ++before) {
    const std::string plain(before, 'x');
    const auto read = [&](const std::string& text) {
      Text padded(text);
      Cursor& in = padded.cursor();
      return std::string(in.string());
    };
    EXPECT_EQ(read('"' + plain + '"'), plain);
    EXPECT_EQ(read('"' + plain + "\\\"y\""), plain + "\"y");
    EXPECT_EQ(read('"' + plain + "\\u00e9\\ud83d\\ude00\""), plain + "\xC3\xA9\xF0\x9F\x98\x80");
    EXPECT_EQ(read('"' + plain + "\x7F\""), plain + "\x7F");
    for (char control = 0; control < 0x20; ++control) {
      EXPECT_EQ(fault_of([&] { read('"' + plain + control + "y\""); }), before + 1) << int{control};
      EXPECT_EQ(fault_of([&] { read("\"\\n" + plain + control + "y\""); }), before + 3) << int{control};
    }
    EXPECT_EQ(fault_of([&] { read('"' + plain); }), before + 1);
    EXPECT_EQ(fault_of([&] { read('"' + plain + '\\'); }), before + 1);
  }
}

TEST(Behind, TheFirstTokenIsWhereTheTextBegins) {
  Text padded("  {}");
  Cursor& in = padded.cursor();
  EXPECT_EQ(in.at() - in.behind(), 2);
}

TEST(String, Escapes) {
  struct Case {
    std::string_view spelled;
    std::optional<std::string_view> text;
  };
  using namespace std::string_view_literals;
  const Case cases[] = {
      {R"(\"\\\/\b\f\n\r\t)", "\"\\/\b\f\n\r\t"},
      {R"(\u0000)", "\0"sv},
      {R"(\u007f\u0080\u07ff\u0800\uffff)", "\x7F\xC2\x80\xDF\xBF\xE0\xA0\x80\xEF\xBF\xBF"},
      {R"(\uD800\uDC00\udbff\udfff)", "\xF0\x90\x80\x80\xF4\x8F\xBF\xBF"},
      {R"(\ud800)", {}},
      {R"(\udc00)", {}},
      {R"(\udfff)", {}},
      {R"(\ud800x)", {}},
      {R"(\ud800\n)", {}},
      {R"(\ud800\ndc00)", {}},
      {R"(\ud800nudc00)", {}},
      {R"(\ud800\u0041)", {}},
      {R"(\ud800\ue000)", {}},
      {R"(\ud800\ud800)", {}},
      {R"(\ud800\udc0)", {}},
      {R"(\u)", {}},
      {R"(\u12)", {}},
      {R"(\u123)", {}},
      {R"(\u12g4)", {}},
      {R"(\u+123)", {}},
      {R"(\u-123)", {}},
      {R"(\u 123)", {}},
      {R"(\u0x12)", {}},
      {R"(\U0041)", {}},
      {R"(\x41)", {}},
      {R"(\a)", {}},
      {R"(\')", {}},
      {R"(\0)", {}},
      {"\\\0"sv, {}},
      {"\\\n"sv, {}},
  };
  for (const Case& given : cases) {
    Text padded('"' + std::string(given.spelled) + '"');
    Cursor& in = padded.cursor();
    std::optional<std::string> text;
    fault_of([&] { text = in.string(); });
    EXPECT_EQ(text, given.text) << given.spelled;
  }
}

// ---- skipped values ------------------------------------------------------------------------------------------------------

// Whether the whole text is one value, with `depth` containers open around it.
bool is_dropped(std::string_view text, unsigned depth = 0) {
  Text padded(text);
  Cursor& in = padded.cursor();
  return !fault_of([&] {
    in.skip_value(depth);
    in.expect_end();
  });
}

TEST(Dropped, Numbers) {
  // The largest number that fits and the smallest that does not, in spellings whose digits are easily miscounted.
  for (const char* text :
       {"0", "-0", "0.0", "-0.0e-0", "1", "-1", "1e308", "1E+308", "1.7976931348623157e308", "0e999", "0.000e99999",
        "-0e99999999999999999999", "1e-99999999999999999999", "1e-400", "17976931348623157e292",
        "123456789012345678901234567890", "18446744073709551616", "0.00000000000000000000000000000000001e340"}) {
    EXPECT_TRUE(is_dropped(text)) << text;
  }
  for (const char* text : {"1e309",
                           "-1e309",
                           "1e999",
                           "1e99999999999999999999",
                           "1.7976931348623159e308",
                           "17976931348623159e292",
                           "-",
                           "+1",
                           "01",
                           "-01",
                           "00",
                           "1.",
                           "1.e1",
                           ".1",
                           "1e",
                           "1e+",
                           "1e-",
                           "--1",
                           "1a",
                           "0x10",
                           "1_0",
                           "NaN",
                           "Infinity",
                           "-Infinity",
                           "1 1",
                           "1.1.1",
                           "1e1.0",
                           "1e1e1"}) {
    EXPECT_FALSE(is_dropped(text)) << text;
  }
  EXPECT_TRUE(is_dropped("1" + std::string(308, '0')));
  EXPECT_FALSE(is_dropped("1" + std::string(309, '0')));
}

// The same two numbers with digits and exponent of every length: the larger one does not fit a double.
TEST(Dropped, NumbersByEveryPowerOfTenThatCounts) {
  EXPECT_TRUE(is_dropped("1e308") && is_dropped("17e307") && is_dropped("179e306"));
  EXPECT_FALSE(is_dropped("2e308") || is_dropped("18e307") || is_dropped("180e306"));
  for (std::size_t zeros = 0; zeros <= 16; ++zeros) {
    const std::string rest = std::string(zeros, '0') + "e" + std::to_string(305 - zeros);
    EXPECT_TRUE(is_dropped("1797" + rest)) << rest;
    EXPECT_FALSE(is_dropped("1798" + rest)) << rest;
  }
}

TEST(Dropped, ValuesOfEveryKind) {
  for (const char* text : {"null", "true", "false", "\"\"", "\"a\\u0041\"", "[]", "{}", " [ ] ", " { } ",
                           "[1,[2,{\"a\":[]}],\"x\"]", "{\"a\":{\"b\":{}},\"a\":null}", "[[],[],{}]", "[\n1\r,\t2 ]"}) {
    EXPECT_TRUE(is_dropped(text)) << text;
  }
  for (const char* text : {"",
                           "nul",
                           "nulL",
                           "True",
                           "tru",
                           "falsey",
                           "undefined",
                           "\"a",
                           "[",
                           "]",
                           "{",
                           "}",
                           "[1",
                           "[1,",
                           "[1,]",
                           "[,]",
                           "[1 2]",
                           "[1}",
                           "{]",
                           "{\"a\"}",
                           "{\"a\":}",
                           "{\"a\":1,}",
                           "{\"a\":1 \"b\":2}",
                           "{a:1}",
                           "{1:1}",
                           "{null:1}",
                           "{\"a\",1}",
                           "[]]",
                           "{}}",
                           "[]{}",
                           "'a'",
                           "/**/1",
                           "1//",
                           "[1]\v",
                           "\f1",
                           "\xC2\xA0"
                           "1"}) {
    EXPECT_FALSE(is_dropped(text)) << text;
  }
}

std::string nested(unsigned depth, std::string_view open, std::string_view close) {
  std::string text;
  for (unsigned i = 0; i < depth; ++i) text += open;
  text += '0';
  for (unsigned i = 0; i < depth; ++i) text += close;
  return text;
}

TEST(Dropped, NestedUpToTheLimitAndNoDeeper) {
  for (const unsigned around : {0U, 1U, 2U, 3U, 126U, 127U}) {
    const unsigned room = kMaxDepth - around;
    EXPECT_TRUE(is_dropped("0", around));
    EXPECT_TRUE(is_dropped(nested(room, "[", "]"), around)) << around;
    EXPECT_FALSE(is_dropped(nested(room + 1, "[", "]"), around)) << around;
    EXPECT_TRUE(is_dropped(nested(room, "{\"x\":", "}"), around)) << around;
    EXPECT_FALSE(is_dropped(nested(room + 1, "{\"x\":", "}"), around)) << around;
  }
}

TEST(Dropped, SiblingsDoNotCountAsDepth) {
  std::string text = "[";
  for (int i = 0; i < 1000; ++i) text += "[{\"a\":[]}],";
  EXPECT_TRUE(is_dropped(text + "0]", 100));
}

}  // namespace
}  // namespace st::format::json::cursor_test
