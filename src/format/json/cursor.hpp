// Reads JSON text token by token, in place, by RFC 8259 without extensions (docs/format.md 1.2).
//
// A cursor is enough, without a tree: the grammar of a header is known, so each value is read where it is needed.
// Strings are views into the text unless they contain escapes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory_resource>
#include <span>
#include <string>
#include <string_view>

#include "base/checked.hpp"
#include "base/compiler.hpp"
#include "base/error.hpp"
#include "format/header_options.hpp"
#include "format/json/structure.hpp"

namespace st::format::json {

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }

inline constexpr unsigned kMaxDepth = 127;  // nested containers, including the outermost

class Cursor {
 public:
  // `origin` is the offset of the text in the file. `strings` allocates strings that contained escapes.
  Cursor(std::span<char> text, std::uint64_t origin, std::pmr::memory_resource* strings,
         std::size_t window_bytes = kWindowBytes)
      : tokens(text, window_bytes), origin_(origin), strings_(strings) {}

  // Returns the first byte of the next token, or 0 at the end.
  char peek() { return tokens.peek(); }
  const char* at() { return tokens.peek(), tokens.at(); }
  const char* behind();  // the end of the previous token

  ST_ALWAYS_INLINE bool take(char c) {
    if (tokens.peek() != c) return false;
    ++tokens.next;
    return true;
  }

  ST_ALWAYS_INLINE void expect(char c) {
    if (!take(c)) fail_expected(c);
  }

  // Reads a string and decodes it.
  ST_ALWAYS_INLINE std::string_view string() {
    if (tokens.peek() != '"') fail_expected('"');
    char* const first = tokens.at() + 1;
    const char* close = tokens.base + tokens.next[1] - 1;
    while (is_space(*close)) --close;
    ++tokens.next;
    if (close >= tokens.plain_end) return special_string(first);
    return {first, static_cast<std::size_t>(close - first)};
  }

  // Reads an integer in 0..2^64-1, digits only. Returns false, and consumes nothing, for anything else.
  bool integer(std::uint64_t& value);

  // Skips any value, checking every byte of it. `depth` is the number of open containers around it.
  void skip_value(unsigned depth);

  void expect_end();  // throws if a token follows

  // Estimates the number of items in the text from the `found` ones so far, each of at least `least` bytes. The caller
  // reserves memory for all of them at once: growing step by step copies them, while untouched memory costs nothing.
  std::size_t expected_items(std::size_t found, std::size_t least) const;

  std::uint64_t offset_of(const char* p) const { return origin_ + static_cast<std::uint64_t>(p - tokens.text_begin); }

  // Returns the error for a wrong value that is valid JSON.
  ST_COLD Error fault_at(Status status, const char* place, std::string_view what) const;
  // Throws it.
  [[noreturn]] ST_COLD void fail_here(Status status, const char* place, std::string_view what) const;
  // Skips the next value and throws the error at its position. If the value is not JSON, throws that error instead.
  [[noreturn]] ST_COLD void wrong_type(unsigned depth, std::string_view what);

  Structure tokens;
  std::string_view document = "header";  // for messages
  std::string_view tensor = {};          // the current tensor, for messages

 private:
  std::string_view special_string(char* first);
  char* string_end(char* at, bool& escaped) const;
  char* unescape(char* at, std::string& utf8) const;
  std::uint32_t hex4(const char* at) const;
  void skip_string();
  void skip_key();
  void skip_number();
  void skip_word(std::string_view word);
  void end_run(char* end);
  [[noreturn]] ST_COLD void fail_expected(char c);
  [[noreturn]] ST_COLD void fail_json(const char* where, std::string_view what) const;

  std::uint64_t origin_;
  std::pmr::memory_resource* strings_;
};

// Parses 1 to 8 digits. One check for all of them avoids mispredicted branches. Returns false if a byte is not a digit.
ST_ALWAYS_INLINE inline bool eight_digits(const char* text, std::size_t size, std::uint64_t& number) {
  std::uint64_t digits = 0;
  std::memcpy(&digits, text, 8);
  if constexpr (std::endian::native == std::endian::big) digits = reversed_bytes(digits);
  digits = (digits ^ 0x3030303030303030) << (64 - 8 * size);  // missing digits become leading zeros
  if ((((digits + 0x7676767676767676) | digits) & 0x8080808080808080) != 0) return false;
  digits = digits * 10 + (digits >> 8);
  number = ((digits & 0x000000FF000000FF) * 0x000F424000000064 +
            ((digits >> 16) & 0x000000FF000000FF) * 0x0000271000000001) >>
           32;
  return true;
}

// Parses 1 to 4 digits, enough for most dimensions.
ST_ALWAYS_INLINE inline bool four_digits(const char* text, std::size_t size, std::uint64_t& number) {
  std::uint32_t digits = 0;
  std::memcpy(&digits, text, 4);
  if constexpr (std::endian::native == std::endian::big) {
    digits = static_cast<std::uint32_t>(reversed_bytes(digits) >> 32);
  }
  digits = (digits ^ 0x30303030) << (32 - 8 * size);
  if ((((digits + 0x76767676) | digits) & 0x80808080) != 0) return false;
  digits = digits * 10 + (digits >> 8);
  number = (digits & 0xFF) * 100 + ((digits >> 16) & 0xFF);
  return true;
}

// Parses 1 to 16 digits without a leading zero. Returns false for anything else.
ST_ALWAYS_INLINE inline bool short_number(const char* text, std::size_t size, std::uint64_t& number) {
  if (*text == '0' && size != 1) return false;
  if (size - 1 < 4) return four_digits(text, size, number);
  if (size - 1 < 8) return eight_digits(text, size, number);
  std::uint64_t high = 0;
  if (size - 1 >= 16 || !eight_digits(text, size - 8, high) || !eight_digits(text + size - 8, 8, number)) return false;
  number += high * 100'000'000;
  return true;
}

}  // namespace st::format::json
