// Tokens longer than a window, the meaning of escapes, and names that look like something else.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "format/json/cursor.hpp"
#include "format/shard_index/shard_index.hpp"
#include "header_read.hpp"

namespace st::format::tokens_test {
namespace {

using namespace std::string_literals;

std::string entry(const std::string& name, std::uint64_t begin, const std::string& before = {}) {
  return formatted(R"("{}":{{{}"dtype":"U8","shape":[4],"data_offsets":[{},{}]}})", name, before, begin, begin + 4);
}

// The end of a token is recognized even if it is alone in its window.
TEST(Tokens, LongerThanAWindowEndWhereTheyEnd) {
  const std::string number = "0." + std::string(150, '0') + "1";
  const std::string text = '"' + std::string(150, 'x') + '"';
  for (const std::string& token : {number, text, "-" + number, number + "e-5"}) {
    for (const std::string space : {"", " ", "\n\t"}) {
      const std::string values[] = {token, '[' + token + ']', '[' + token + space + ',' + token + ']',
                                    "{\"y\":" + token + space + '}', "[[" + token + "],{}]"};
      for (const std::string& value : values) {
        for (const std::size_t window : {64U, 100U, 200U, 16384U}) {
          SCOPED_TRACE(value + ", windows of " + std::to_string(window));
          HeaderOptions options;
          options.window_bytes = window;
          const std::string unknown = "\"x\":" + space + value + space + ',' + space;
          const std::string header = '{' + entry("a", 0, unknown) + ',' + entry("b", 4) + '}';
          EXPECT_EQ(error_of(header, 8, options).message, "");
          // Without the comma, or with one more, it is no header.
          const std::string without = "\"x\":" + value + ' ';
          EXPECT_EQ(error_of('{' + entry("a", 0, without) + '}', 4, options).status, Status::json);
          const std::string twice = "\"x\":" + value + ",,";
          EXPECT_EQ(error_of('{' + entry("a", 0, twice) + '}', 4, options).status, Status::json);
          const std::string another = "\"x\":" + value + " 7,";
          EXPECT_EQ(error_of('{' + entry("a", 0, another) + '}', 4, options).status, Status::json);
          EXPECT_EQ(error_of("{\"a\":{\"x\":" + value, 4, options).status, Status::json);
        }
      }
    }
  }
}

// A name reserved for the metadata is never a tensor name, however similar the previous entries are.
TEST(Tokens, MetadataSpelledAsATensorIsMetadata) {
  for (const char* const name : {"__metadata__", "__metadata_\\u005f"}) {
    const std::string header = '{' + entry("a", 0) + ',' + entry("b", 4) + ',' + entry(name, 8) + '}';
    const Error error = error_of(header, 12);
    EXPECT_EQ(error.status, Status::schema) << error.message;
    EXPECT_NE(error.message.find("__metadata__"), std::string::npos) << error.message;
  }
  for (const char* const name :
       {"__metadata_", "__metadata___", "_metadata__", "__Metadata__", "__metadata__\\u0000"}) {
    const std::string header = '{' + entry("a", 0) + ',' + entry("b", 4) + ',' + entry(name, 8) + '}';
    EXPECT_EQ(error_of(header, 12).message, "") << name;
  }
}

std::string utf8_of(std::uint32_t code) {
  std::string text;
  const auto add = [&text](std::uint32_t byte) { text += static_cast<char>(static_cast<unsigned char>(byte)); };
  if (code < 0x80) {
    add(code);
  } else if (code < 0x800) {
    add(0xC0 + code / 64), add(0x80 + code % 64);
  } else if (code < 0x10000) {
    add(0xE0 + code / 4096), add(0x80 + code / 64 % 64), add(0x80 + code % 64);
  } else {
    add(0xF0 + code / 262144), add(0x80 + code / 4096 % 64), add(0x80 + code / 64 % 64), add(0x80 + code % 64);
  }
  return text;
}

// Characters with each single bit set, written as one or two escapes, and the first and last of each length.
TEST(Escape, StandsForItsCharacter) {
  std::vector<std::uint32_t> codes{0x7F,   0x80,    0x7FF,    0x800,   0xD7FF, 0xE000,
                                   0xFFFF, 0x10000, 0x10FFFF, 0x103FF, 0x10400};
  for (std::uint32_t bit = 1; bit <= 0x100000; bit *= 2) {
    for (const std::uint32_t base : {0U, 0x10000U, 0x80000U}) {
      const std::uint32_t code = base ^ bit;
      if (code <= 0x10FFFF && (code < 0xD800 || code > 0xDFFF)) codes.push_back(code);
    }
  }
  for (const std::uint32_t code : codes) {
    const std::uint32_t above = code - 0x10000;
    const std::string spelled = code < 0x10000
                                    ? formatted("\\u{:04x}", code)
                                    : formatted("\\u{:04x}\\u{:04X}", 0xD800 + above / 1024, 0xDC00 + above % 1024);
    const auto found = read('{' + entry("<" + spelled + ">", 0) + '}', 4);
    ASSERT_EQ(found->table.tensors.size(), 1U);
    EXPECT_EQ(found->table.tensors[0].name(), "<" + utf8_of(code) + ">") << spelled;
  }
}

// A string that ends too early and a string with a control byte are different errors.
TEST(String, WhatIsWrongWithItIsSaid) {
  EXPECT_NE(error_of("{\"a", 0).message.find("the text ends inside a string"), std::string::npos);
  EXPECT_NE(error_of("{\"a\\n", 0).message.find("the text ends inside a string"), std::string::npos);
  for (const char control : {'\0', '\1', '\n', '\x1F'}) {
    const std::string header = "{\"a"s + control + "\":1}";
    EXPECT_NE(error_of(header, 0).message.find("raw control byte in a string"), std::string::npos) << int{control};
  }
  EXPECT_EQ(error_of("{\"a\x20\x7F\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]}}", 1).message, "");
}

// Any letter before a colon is a drive letter; any other character is not.
TEST(ShardName, EveryByteAtTheBeginning) {
  const auto is_refused = [](const std::string& name) {
    try {
      shard_index::require_safe_name(name);
      return false;
    } catch (const Error& error) {
      EXPECT_EQ(error.status, Status::shard);
      return true;
    }
  };
  for (int byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    const bool never = c == '\0' || c == '\\';
    EXPECT_EQ(is_refused(std::string(1, c) + ":x"), letter || never || c == '/') << byte;
    EXPECT_EQ(is_refused(std::string(1, c) + ":"), letter || never || c == '/') << byte;
    EXPECT_EQ(is_refused(std::string(1, c)), never || c == '/') << byte;
    EXPECT_EQ(is_refused(std::string(1, c) + "x:"), never || c == '/') << byte;
    EXPECT_EQ(is_refused("xy"s + c + "z"), never) << byte;
    EXPECT_EQ(is_refused(".."s + c), never || c == '/') << byte;
    EXPECT_EQ(is_refused("a/.."s + c), never || c == '/') << byte;
  }
  for (const char* const name : {"", "..", "a/..", "../a", "a/../b", "a/b/.."}) EXPECT_TRUE(is_refused(name)) << name;
  for (const char* const name : {".", "...", "a..", "..a", "a/.", "a/...", "a//b", "a/..b/c", "a/b../c"}) {
    EXPECT_FALSE(is_refused(name)) << name;
  }
}

TEST(ShardIndex, AMapWithoutTensorsIsReportedWhereItBegins) {
  const std::string text = R"({"x":1,"weight_map":{}})";
  std::vector<char> padded(text.begin(), text.end());
  padded.resize(text.size() + kPadding);
  shard_index::Index index(std::pmr::new_delete_resource());
  try {
    shard_index::read({padded.data(), text.size()}, {}, index);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.offset, text.find("\"weight_map"));
  }
}

// Of several errors of one kind, the first is reported.
TEST(Bintensors, OfTwoNamesGivenTwiceTheFirstIsTold) {
  const std::string header = "\0\4\1a\1\1\1\0\1\1b\1\1\1\1\2\1b\1\1\1\2\3\1a\1\1\1\3\4  "s;
  const Error error = error_of(header, 4);
  EXPECT_EQ(error.status, Status::duplicate);
  EXPECT_NE(error.message.find("'b' occurs twice"), std::string::npos) << error.message;
  EXPECT_EQ(error.offset, kLengthBytes + 16);
}

}  // namespace
}  // namespace st::format::tokens_test
