// SPDX-License-Identifier: Apache-2.0
#include "format/json/cursor.hpp"

#include <algorithm>
#include <array>
#include <bitset>
#include <charconv>
#include <cmath>
#include <limits>

#include "base/checked.hpp"

namespace st::format::json {

namespace {

// The reference converts every number, even in ignored values, to a double, and rejects numbers that become infinite.
// It multiplies at most 64 bits of digits by a power of ten, in double arithmetic. We do the same, so that we reach the
// same verdict at the limit.
bool fits_double(std::uint64_t digits, std::int64_t exponent) {
  constexpr int kSmallestPower = 288;  // finite when multiplied by any 64-bit number
  constexpr std::array kPowers = {1e288, 1e289, 1e290, 1e291, 1e292, 1e293, 1e294, 1e295, 1e296, 1e297, 1e298,
                                  1e299, 1e300, 1e301, 1e302, 1e303, 1e304, 1e305, 1e306, 1e307, 1e308};
  if (digits == 0 || exponent < kSmallestPower) return true;
  const std::int64_t i = exponent - kSmallestPower;
  return i < std::ssize(kPowers) && !std::isinf(static_cast<double>(digits) * kPowers[static_cast<std::size_t>(i)]);
}

void append_utf8(std::string& out, std::uint32_t code) {
  const auto append = [&out](std::uint32_t bits) { out += static_cast<char>(static_cast<unsigned char>(bits)); };
  if (code < 0x80) return append(code);
  if (code < 0x800) {
    append(0xC0 | code >> 6);
  } else {
    if (code < 0x10000) {
      append(0xE0 | code >> 12);
    } else {
      append(0xF0 | code >> 18);
      append(0x80 | (code >> 12 & 0x3F));
    }
    append(0x80 | (code >> 6 & 0x3F));
  }
  append(0x80 | (code & 0x3F));
}

}  // namespace

const char* Cursor::behind() {
  const char* end = at();
  while (end != tokens.text_begin && is_space(end[-1])) --end;
  return end;
}

void Cursor::expect_end() {
  if (at() != tokens.text_end) fail_json(at(), "more text after the end of the object");
}

std::size_t Cursor::expected_items(std::size_t found, std::size_t least) const {
  constexpr std::size_t kFirst = 64;  // items, whose average length is the estimate
  const auto all = static_cast<double>(tokens.text_end - tokens.text_begin);
  if (found == 0) return 16 + std::min(kFirst, static_cast<std::size_t>(all) / least);
  const double expected = static_cast<double>(found) * all / static_cast<double>(tokens.at() - tokens.text_begin);
  return found + 16 + static_cast<std::size_t>((expected - static_cast<double>(found)) * 1.0625);
}

// Ends a run of bytes at `end`. If the run continues, the rest becomes the next token, which every rule rejects.
void Cursor::end_run(char* end) {
  ++tokens.next;
  if (end == tokens.text_end || is_space(*end) || is_operator(*end)) return;
  *--tokens.next = static_cast<std::uint32_t>(end - tokens.base);
}

bool Cursor::integer(std::uint64_t& value) {
  tokens.peek();
  char* const first = tokens.at();
  if (short_number(first, tokens.next[1] - tokens.next[0], value)) {
    ++tokens.next;
    return true;
  }
  const auto [stop, problem] = std::from_chars(first, tokens.text_end, value);
  const bool leading_zero = *first == '0' && stop - first > 1;
  if (problem != std::errc{} || leading_zero || *stop == '.' || *stop == 'e' || *stop == 'E') return false;
  end_run(first + (stop - first));
  return true;
}

// ---- strings --------------------------------------------------------------------------------------------------------

std::uint32_t Cursor::hex4(const char* at) const {
  std::uint32_t value = 0;
  if (std::from_chars(at, at + 4, value, 16).ptr != at + 4) fail_json(at, "\\u needs four hexadecimal digits");
  return value;
}

// Decodes the escape that begins at `at` and returns the position after it.
char* Cursor::unescape(char* at, std::string& utf8) const {
  constexpr std::string_view kLetters = "\"\\/bfnrt";
  constexpr std::string_view kBytes = "\"\\/\b\f\n\r\t";
  if (const std::size_t i = kLetters.find(at[1]); i != std::string_view::npos) {
    utf8 += kBytes[i];
    return at + 2;
  }
  if (at[1] != 'u') fail_json(at, "invalid escape");
  std::uint32_t code = hex4(at + 2);
  if (code >= 0xDC00 && code <= 0xDFFF) fail_json(at, "second half of a surrogate pair without a first");
  const bool high = code >= 0xD800 && code <= 0xDBFF;
  if (high) {
    const std::uint32_t low = at[6] == '\\' && at[7] == 'u' ? hex4(at + 8) : 0;
    if (low < 0xDC00 || low > 0xDFFF) fail_json(at, "first half of a surrogate pair without a second");
    code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
  }
  append_utf8(utf8, code);
  return at + (high ? 12 : 6);
}

// Returns the closing quote of a string whose first byte is `at`. Checks every byte.
char* Cursor::string_end(char* at, bool& escaped) const {
  std::string utf8;
  while (*at != '"') {
    if (*at == '\\') {
      escaped = true;
      utf8.clear();
      at = unescape(at, utf8);
    } else if (static_cast<unsigned char>(*at) < 0x20) {
      fail_json(at, at >= tokens.text_end ? "the text ends inside a string" : "raw control byte in a string");
    } else {
      ++at;
    }
  }
  return at;
}

// Checks the string and then decodes it into one allocation: decoded text is not longer than its escapes.
std::string_view Cursor::special_string(char* first) {
  bool escaped = false;
  char* const close = string_end(first, escaped);
  tokens.find_backslash(close);
  if (!escaped) return {first, static_cast<std::size_t>(close - first)};
  auto* const out = static_cast<char*>(strings_->allocate(static_cast<std::size_t>(close - first) + 1, 1));
  char* end = out;
  std::string utf8;
  for (char* at = first; at != close;) {
    char* const plain = at;
    at = std::find(at, close, '\\');
    end = std::copy(plain, at, end);
    utf8.clear();
    if (at != close) at = unescape(at, utf8);
    end = std::copy(utf8.begin(), utf8.end(), end);
  }
  *end = '\0';
  return {out, static_cast<std::size_t>(end - out)};
}

// ---- ignored values -------------------------------------------------------------------------------------------------

void Cursor::skip_string() {
  if (tokens.peek() != '"') fail_expected('"');
  char* const first = tokens.at() + 1;
  ++tokens.next;
  if (tokens.base + *tokens.next <= tokens.plain_end) return;
  bool escaped = false;
  tokens.find_backslash(string_end(first, escaped));
}

void Cursor::skip_key() {
  skip_string();
  expect(':');
}

void Cursor::skip_word(std::string_view word) {
  char* const first = tokens.at();
  if (std::memcmp(first, word.data(), word.size()) != 0) fail_json(first, "expected a value");
  end_run(first + word.size());
}

void Cursor::skip_number() {
  char* at = tokens.at();
  const char* const first = at;
  if (*at == '-') ++at;
  if (!is_digit(*at)) fail_json(first, "a number without digits");
  if (at[0] == '0' && is_digit(at[1])) fail_json(first, "a number with a leading zero");

  std::uint64_t digits = 0;
  std::int64_t exponent = 0;
  bool full = false;  // no more digits fit into 64 bits: the remaining ones only change the exponent
  const auto keep = [&digits, &full](char c) {
    std::uint64_t sum = 0;
    const auto digit = static_cast<std::uint64_t>(c - '0');
    full = full || !checked_mul(digits, 10, sum) || !checked_add(sum, digit, sum);
    if (!full) digits = sum;
    return !full;
  };
  for (; is_digit(*at); ++at) {
    if (!keep(*at)) ++exponent;
  }
  if (*at == '.') {
    ++at;
    if (!is_digit(*at)) fail_json(first, "a number that ends with its decimal point");
    for (full = false; is_digit(*at); ++at) {
      if (keep(*at)) --exponent;
    }
  }
  if (*at == 'e' || *at == 'E') {
    ++at;
    const bool negative = *at == '-';
    if (*at == '-' || *at == '+') ++at;
    if (!is_digit(*at)) fail_json(first, "a number without an exponent after its e");
    std::int64_t written = 0;
    for (; is_digit(*at); ++at) {
      written = std::min<std::int64_t>(written * 10 + (*at - '0'), std::numeric_limits<std::int32_t>::max());
    }
    exponent += negative ? -written : written;
  }
  if (!fits_double(digits, exponent)) fail_json(first, "a number beyond the range of a double");
  end_run(at);
}

void Cursor::skip_value(unsigned depth) {
  const unsigned outside = depth;
  std::bitset<kMaxDepth + 1> in_object;
  for (;;) {
    const char c = peek();
    if (c == '{' || c == '[') {
      if (++depth > kMaxDepth) fail_json(at(), "nested deeper than 127 containers");
      ++tokens.next;
      in_object[depth] = c == '{';
      if (!take(c == '{' ? '}' : ']')) {
        if (in_object[depth]) skip_key();
        continue;
      }
      --depth;
    } else if (c == '"') {
      skip_string();
    } else if (c == '-' || is_digit(c)) {
      skip_number();
    } else {
      skip_word(c == 't' ? "true" : c == 'f' ? "false" : "null");
    }
    for (;; --depth) {  // close what ends here
      if (depth == outside) return;
      if (take(',')) break;
      expect(in_object[depth] ? '}' : ']');
    }
    if (in_object[depth]) skip_key();
  }
}

// ---- errors ---------------------------------------------------------------------------------------------------------

Error Cursor::fault_at(Status status, const char* place, std::string_view what) const {
  const std::uint64_t offset = offset_of(std::min<const char*>(place, tokens.text_end));
  if (tensor.data() == nullptr) return {status, 0, offset, formatted("{}: {}", document, what)};
  return {status, 0, offset, formatted("tensor {}: {}", in_quotes(tensor), what)};
}

void Cursor::fail_here(Status status, const char* place, std::string_view what) const {
  throw fault_at(status, place, what);
}

void Cursor::wrong_type(unsigned depth, std::string_view what) {
  const char* const place = at();
  skip_value(depth);
  fail_here(Status::schema, place, what);
}

void Cursor::fail_json(const char* where, std::string_view what) const {
  const char* const place = std::min<const char*>(where, tokens.text_end);
  fail_here(Status::json, place, formatted("{} (byte {} of the file)", what, offset_of(place)));
}

void Cursor::fail_expected(char c) {
  const char* const place = at();
  const auto found = static_cast<unsigned char>(*place);
  if (place == tokens.text_end) fail_json(place, formatted("the text ends where '{}' was expected", c));
  if (found < 0x20 || found >= 0x7F) fail_json(place, formatted("expected '{}', found byte 0x{:02x}", c, found));
  fail_json(place, formatted("expected '{}', found '{}'", c, *place));
}

}  // namespace st::format::json
