// Reading JSON text token by token, in place, by RFC 8259 without extensions (FORMAT.md 1.2).
//
// A scanner rather than a tree: the header's grammar is known, so each value is met by the code that wants it, and
// nothing is built that is not kept. The text is followed by kPadding zero bytes, and a NUL is legal nowhere in
// JSON: every loop ends there by itself, and no byte needs a bounds check. Strings are views into the text unless
// they hold escapes. Whether the text is UTF-8 is settled before, for all of it at once.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory_resource>
#include <span>
#include <string_view>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "base/error.hpp"

namespace st::format {

inline constexpr std::size_t kPadding = 64;  // readable zero bytes behind every text that is scanned
inline constexpr unsigned kMaxDepth = 127;   // containers open at once, the outermost counted

class Scanner {
 public:
  // `origin`: where in the file the text begins, for messages. Unescaped strings go to `strings`.
  Scanner(std::span<char> text, std::uint64_t origin, std::pmr::memory_resource* strings)
      : at_(text.data()), begin_(text.data()), end_(text.data() + text.size()), origin_(origin), strings_(strings) {}

  // What is being read, for messages: "tensor 'x'", or else the document. The views are kept, not copied.
  void set_subject(std::string_view tensor_name) { subject_ = tensor_name; }
  void set_document(std::string_view document) { document_ = document; }

  // The next byte that is not white space; 0 at the end.
  char peek() {
    if (static_cast<unsigned char>(*at_) <= ' ') skip_space();
    return *at_;
  }

  bool take(char c) {
    if (*at_ != c && (static_cast<unsigned char>(*at_) > ' ' || peek() != c)) return false;
    ++at_;
    return true;
  }

  // The bytes exactly as given; the caller has peeked, so that no white space is in front.
  template <std::size_t N>
  bool take_exactly(const char (&text)[N]) {
    static_assert(N - 1 <= kPadding);
    if (std::memcmp(at_, text, N - 1) != 0) return false;
    at_ += N - 1;
    return true;
  }

  void expect(char c) {
    if (!take(c)) fail_expected(c);
  }

  // A string, decoded.
  std::string_view string() {
    if (peek() != '"') fail_expected('"');
    char* const first = at_ + 1;
    at_ = plain_end(first);
    if (*at_ != '"') return escaped_string(first);
    return {first, static_cast<std::size_t>(at_++ - first)};
  }

  // Plain digits in 0..2^64-1. false, and nothing consumed, for anything else.
  bool integer(std::uint64_t& value);

  // Any value, checked to the last byte and dropped. `depth`: containers open around it.
  void skip_value(unsigned depth);

  void expect_end();  // only white space may follow

  std::uint64_t offset() const { return offset_of(at_); }
  const char* at() const { return at_; }
  const char* begin() const { return begin_; }
  const char* end() const { return end_; }

  // A bad value of the right grammar. Throws.
  [[noreturn, gnu::cold]] void fail_here(Status status, std::uint64_t offset, std::string_view what) const;

 private:
  std::uint64_t offset_of(const char* p) const { return origin_ + static_cast<std::uint64_t>(p - begin_); }

  // The first of a quote, a backslash or a control byte.
  static char* plain_end(char* from);

  bool long_integer(std::uint64_t& value);
  void skip_space();
  void skip_string();
  void skip_number();
  void skip_word(std::string_view word);
  void skip_key();
  std::string_view escaped_string(char* first);
  std::size_t unescape(char (&utf8)[4]);
  std::uint32_t hex4();
  [[noreturn, gnu::cold]] void fail_expected(char c) const;
  [[noreturn, gnu::cold]] void fail_json(const char* where, std::string_view what) const;

  char* at_;
  char* const begin_;
  char* const end_;
  const std::uint64_t origin_;
  std::pmr::memory_resource* const strings_;
  std::string_view subject_;
  std::string_view document_ = "header";
};

// ---- the two loops that every tensor runs through ----------------------------------------------------------------

#if defined(__SSE2__)
// A bit for each of 16 bytes that ends the plain part of a string.
inline std::uint64_t special_bytes(const char* from) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  const __m128i control = _mm_cmpeq_epi8(_mm_min_epu8(bytes, _mm_set1_epi8(0x1F)), bytes);
  const __m128i quote = _mm_cmpeq_epi8(bytes, _mm_set1_epi8('"'));
  const __m128i backslash = _mm_cmpeq_epi8(bytes, _mm_set1_epi8('\\'));
  return static_cast<unsigned>(_mm_movemask_epi8(_mm_or_si128(_mm_or_si128(quote, backslash), control)));
}
#endif

inline char* Scanner::plain_end(char* from) {
#if defined(__SSE2__)
  // The first step is for dtypes; names end in the second, whatever their length, so that nothing is mispredicted.
  if (const std::uint64_t found = special_bytes(from); found != 0) return from + std::countr_zero(found);
  for (from += 16;; from += 48) {
    const std::uint64_t found = special_bytes(from) | special_bytes(from + 16) << 16 | special_bytes(from + 32) << 32;
    if (found != 0) return from + std::countr_zero(found);
  }
#else
  while (*from != '"' && *from != '\\' && static_cast<unsigned char>(*from) > 0x1F) ++from;
  return from;
#endif
}

// Up to eight digits at once, without a branch per digit: finding where a number of unknown length ends, one byte
// after the other, was a quarter of the time it took to read a header.
struct EightDigits {
  std::uint64_t value;
  int count;  // of digits in front of the first byte that is none, at most 8
};

inline EightDigits eight_digits(const char* text) {
  std::uint64_t bytes = 0;
  std::memcpy(&bytes, text, 8);
  std::uint64_t digits = bytes ^ 0x3030303030303030;
  // A byte above 9 sets its top bit. Its carry may spoil the bytes after it, which no longer matter.
  const std::uint64_t others = ((digits + 0x7676767676767676) | digits) & 0x8080808080808080;
  const int count = std::countr_zero(others) / 8;
  if (count == 0) return {0, 0};
  digits <<= 64 - 8 * count;  // the missing digits become zeros in front
  digits = digits * 10 + (digits >> 8);
  digits = ((digits & 0x000000FF000000FF) * 0x000F424000000064 +
            ((digits >> 16) & 0x000000FF000000FF) * 0x0000271000000001) >>
           32;
  return {digits, count};
}

inline bool Scanner::integer(std::uint64_t& value) {
  if constexpr (std::endian::native != std::endian::little) return long_integer(value);
  constexpr std::array<std::uint64_t, 9> kPowers{1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000};
  peek();
  auto [number, count] = eight_digits(at_);
  if (count == 8) {
    const auto [low, more] = eight_digits(at_ + 8);
    if (more == 8) return long_integer(value);
    number = number * kPowers[static_cast<std::size_t>(more)] + low;
    count += more;
  }
  const char next = at_[count];
  const bool leading_zero = *at_ == '0' && count > 1;
  if (count == 0 || leading_zero || next == '.' || (next | 0x20) == 'e') return false;
  value = number;
  at_ += count;
  return true;
}

}  // namespace st::format
