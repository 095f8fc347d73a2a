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

// The text, and what messages say of it.
struct JsonText {
  char* begin;
  char* end;
  std::uint64_t origin;                // where in the file it begins
  std::pmr::memory_resource* strings;  // where unescaped strings go
  std::string_view document = "header";
  std::string_view tensor = {};  // the one being read

  JsonText(std::span<char> text, std::uint64_t begins_at, std::pmr::memory_resource* memory)
      : begin(text.data()), end(text.data() + text.size()), origin(begins_at), strings(memory) {}

  std::uint64_t offset_of(const char* p) const { return origin + static_cast<std::uint64_t>(p - begin); }

  // How many items there will be, going by those before `at`, each of `least` bytes or more: to reserve for all of them
  // at once. Growing step by step would copy them, and memory that is never touched costs nothing.
  std::size_t expected_items(std::size_t found, const char* at, std::size_t least) const;

  // A bad value of the right grammar. Throws.
  [[noreturn, gnu::cold]] void fail_here(Status status, std::uint64_t offset, std::string_view what) const;
};

// A place in the text: a value of two words, meant to live in registers. Written through memory, the place costs more
// than the reading, for every token waits for it. So all that a tensor runs through is inline, and what is slow or rare
// takes a scanner and returns one; a function that took its address would send it back to memory.
class Scanner {
 public:
  explicit Scanner(const JsonText& text) : at_(text.begin), text_(&text) {}

  // The next byte that is not white space; 0 at the end.
  [[gnu::always_inline]] char peek() {
    if (static_cast<unsigned char>(*at_) <= ' ') *this = after_space(*this);
    return *at_;
  }

  [[gnu::always_inline]] bool take(char c) {
    if (*at_ != c && (static_cast<unsigned char>(*at_) > ' ' || peek() != c)) return false;
    ++at_;
    return true;
  }

  // The bytes exactly as given; the caller has peeked, so that no white space is in front.
  template <std::size_t N>
  [[gnu::always_inline]] bool take_exactly(const char (&text)[N]) {
    static_assert(N - 1 <= kPadding);
    if (std::memcmp(at_, text, N - 1) != 0) return false;
    at_ += N - 1;
    return true;
  }

  // So many bytes, whose meaning the caller knows.
  [[gnu::always_inline]] void skip(std::size_t bytes) { at_ += bytes; }

  [[gnu::always_inline]] void expect(char c) {
    if (!take(c)) fail_expected(*this, c);
  }

  // A string, decoded.
  [[gnu::always_inline]] std::string_view string() {
    if (peek() != '"') fail_expected(*this, '"');
    char* const first = at_ + 1;
    at_ = plain_end(first);
    if (*at_ == '"') return {first, static_cast<std::size_t>(at_++ - first)};
    std::string_view decoded;
    *this = after_escaped(*this, first, decoded);
    return decoded;
  }

  // Plain digits in 0..2^64-1. false, and nothing consumed, for anything else.
  [[gnu::always_inline]] bool integer(std::uint64_t& value) {
    peek();
    return digits(value);
  }

  // The same, where no white space may be in front.
  [[gnu::always_inline]] bool digits(std::uint64_t& value) {
    int count = 0;
    if (!read_digits(value, count)) return false;
    at_ += count;
    return true;
  }

  // The same for numbers of which most have as many digits as the one before, `usual`. The processor goes on behind
  // the guess and checks it meanwhile; where the next token begins, is otherwise known only when this one is read.
  [[gnu::always_inline]] bool digits(std::uint64_t& value, int& usual) {
    int count = 0;
    if (!read_digits(value, count)) return false;
    int step = usual;
    asm("" : "+r"(step));  // or the compiler sees that it is the count, and uses that
    if (count != usual) [[unlikely]] {
      usual = count;
      step = count;
    }
    at_ += step;
    return true;
  }

  // Any value, checked to the last byte and dropped. `depth`: containers open around it.
  void skip_value(unsigned depth) { *this = after_value(*this, depth); }

  void expect_end();  // only white space may follow

  std::uint64_t offset() const { return text_->offset_of(at_); }
  const char* at() const { return at_; }

 private:
  [[gnu::always_inline]] bool read_digits(std::uint64_t& value, int& count);

  // The first of a quote, a backslash or a control byte.
  static char* plain_end(char* from);

  static Scanner after_space(Scanner in);
  static Scanner after_value(Scanner in, unsigned depth);
  static Scanner after_escaped(Scanner in, char* first, std::string_view& decoded);
  static Scanner after_long_integer(Scanner in, std::uint64_t& value);  // stays where it is when there is none

  void skip_string();
  void skip_number();
  void skip_word(std::string_view word);
  void skip_key();
  std::size_t unescape(char (&utf8)[4]);
  std::uint32_t hex4();
  [[noreturn, gnu::cold]] static void fail_expected(Scanner in, char c);
  [[noreturn, gnu::cold]] void fail_json(const char* where, std::string_view what) const;

  char* at_;
  const JsonText* text_;
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

[[gnu::always_inline]] inline char* Scanner::plain_end(char* from) {
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

[[gnu::always_inline]] inline EightDigits eight_digits(const char* text) {
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

inline constexpr std::array<std::uint64_t, 9> kPowersOfTen{1,       10,        100,        1'000,      10'000,
                                                           100'000, 1'000'000, 10'000'000, 100'000'000};

inline bool Scanner::read_digits(std::uint64_t& value, int& count) {
  auto [number, digits] = eight_digits(at_);
  if (digits == 8) {
    const auto [low, more] = eight_digits(at_ + 8);
    number = number * kPowersOfTen[static_cast<std::size_t>(more)] + low;
    digits += more;
  }
  const char next = at_[digits];
  const bool plain = digits != 0 && digits != 16 && (*at_ != '0' || digits == 1) && next != '.' && (next | 0x20) != 'e';
  if (std::endian::native != std::endian::little || !plain) [[unlikely]] {
    number = 0;
    digits = static_cast<int>(after_long_integer(*this, number).at_ - at_);
  }
  value = number;
  count = digits;
  return digits != 0;
}

}  // namespace st::format
