// The slow and the failing half of the scanner: escapes, long numbers, values nobody asked for, errors.
// SPDX-License-Identifier: Apache-2.0
#include "format/json.hpp"

#include <algorithm>
#include <array>
#include <bitset>
#include <charconv>
#include <cmath>
#include <limits>

namespace st::format {

namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// The reference turns every number in an ignored value into a double, and refuses those that become infinite. It
// does so from at most 64 bits of digits times a power of ten, in double arithmetic, and so do we, because its
// verdict at the edge is the format's.
bool fits_double(std::uint64_t digits, std::int64_t exponent) {
  constexpr int kLargestPower = 308;
  if (digits == 0 || exponent < kLargestPower - 20) return true;
  if (exponent > kLargestPower) return false;
  std::array<char, 8> text{};
  char* const text_end = fmt::format_to(text.data(), "1e{}", exponent);
  double power = 0;
  std::from_chars(text.data(), text_end, power);
  return !std::isinf(static_cast<double>(digits) * power);
}

}  // namespace

Scanner Scanner::after_space(Scanner in) {
  while (*in.at_ == ' ' || *in.at_ == '\n' || *in.at_ == '\r' || *in.at_ == '\t') ++in.at_;
  return in;
}

// Of any length, and by any byte order.
Scanner Scanner::after_long_integer(Scanner in, std::uint64_t& value) {
  char* at = in.at_;
  std::uint64_t sum = 0;
  for (; is_digit(*at); ++at) {
    const auto digit = static_cast<std::uint64_t>(*at - '0');
    if (__builtin_mul_overflow(sum, std::uint64_t{10}, &sum) || __builtin_add_overflow(sum, digit, &sum)) return in;
  }
  const bool leading_zero = *in.at_ == '0' && at - in.at_ > 1;
  if (leading_zero || *at == '.' || *at == 'e' || *at == 'E') return in;
  value = sum;
  in.at_ = at;
  return in;
}

// ---- strings --------------------------------------------------------------------------------------------------------

std::uint32_t Scanner::hex4() {
  std::uint32_t value = 0;
  const auto [stop, problem] = std::from_chars(at_, at_ + 4, value, 16);
  if (problem != std::errc{} || stop != at_ + 4) fail_json(at_, "\\u wants four hexadecimal digits");
  at_ += 4;
  return value;
}

// One escape, at the backslash: its bytes and how many.
std::size_t Scanner::unescape(char (&utf8)[4]) {
  const char* const backslash = at_;
  constexpr std::string_view kLetters = "\"\\/bfnrt";
  constexpr std::string_view kBytes = "\"\\/\b\f\n\r\t";
  const char letter = at_[1];
  if (const std::size_t i = kLetters.find(letter); i != std::string_view::npos && letter != '\0') {
    at_ += 2;
    utf8[0] = kBytes[i];
    return 1;
  }
  if (letter != 'u') fail_json(backslash, "no such escape");
  at_ += 2;
  std::uint32_t code = hex4();
  if (code >= 0xDC00 && code <= 0xDFFF) fail_json(backslash, "second half of a surrogate pair without a first");
  if (code >= 0xD800 && code <= 0xDBFF) {
    const bool paired = at_[0] == '\\' && at_[1] == 'u';
    if (paired) at_ += 2;
    const std::uint32_t low = paired ? hex4() : 0;
    if (low < 0xDC00 || low > 0xDFFF) fail_json(backslash, "first half of a surrogate pair without a second");
    code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
  }
  const auto byte = [](std::uint32_t bits) { return static_cast<char>(static_cast<unsigned char>(bits)); };
  if (code < 0x80) {
    utf8[0] = byte(code);
    return 1;
  }
  if (code < 0x800) {
    utf8[0] = byte(0xC0 | code >> 6);
    utf8[1] = byte(0x80 | (code & 0x3F));
    return 2;
  }
  if (code < 0x10000) {
    utf8[0] = byte(0xE0 | code >> 12);
    utf8[1] = byte(0x80 | (code >> 6 & 0x3F));
    utf8[2] = byte(0x80 | (code & 0x3F));
    return 3;
  }
  utf8[0] = byte(0xF0 | code >> 18);
  utf8[1] = byte(0x80 | (code >> 12 & 0x3F));
  utf8[2] = byte(0x80 | (code >> 6 & 0x3F));
  utf8[3] = byte(0x80 | (code & 0x3F));
  return 4;
}

// Past a string whose first byte is at_, checking every escape.
void Scanner::skip_string() {
  for (;;) {
    at_ = plain_end(at_);
    if (*at_ == '"') {
      ++at_;
      return;
    }
    if (*at_ != '\\') {
      fail_json(at_, at_ >= text_->end ? "the text ends inside a string" : "raw control byte in a string");
    }
    char utf8[4];
    unescape(utf8);
  }
}

// Checked first, then decoded: the text is never shorter than what it stands for, so one allocation is enough.
Scanner Scanner::after_escaped(Scanner in, char* first, std::string_view& decoded) {
  in.at_ = first;
  in.skip_string();
  char* const after = in.at_;
  const auto most = static_cast<std::size_t>(after - first);  // with the closing quote: room for a NUL
  auto* const out = static_cast<char*>(in.text_->strings->allocate(most, 1));
  std::size_t size = 0;
  in.at_ = first;
  while (in.at_ + 1 < after) {
    char* const plain = in.at_;
    in.at_ = plain_end(in.at_);
    const auto n = static_cast<std::size_t>(in.at_ - plain);
    std::memcpy(out + size, plain, n);
    size += n;
    if (*in.at_ != '\\') break;
    char utf8[4];
    const std::size_t bytes = in.unescape(utf8);
    std::memcpy(out + size, utf8, bytes);
    size += bytes;
  }
  in.at_ = after;
  out[size] = '\0';
  decoded = {out, size};
  return in;
}

// ---- values that are dropped -----------------------------------------------------------------------------------------

void Scanner::skip_word(std::string_view word) {
  if (std::memcmp(at_, word.data(), word.size()) != 0) fail_json(at_, "expected a value");
  at_ += word.size();
}

void Scanner::skip_number() {
  const char* const first = at_;
  if (*at_ == '-') ++at_;
  if (!is_digit(*at_)) fail_json(first, "a number without digits");
  if (at_[0] == '0' && is_digit(at_[1])) fail_json(first, "a number with a leading zero");

  std::uint64_t digits = 0;
  std::int64_t exponent = 0;
  bool full = false;  // no more digits fit into 64 bits; the rest only counts
  const auto keep = [&digits, &full](char c) {
    std::uint64_t sum = 0;
    const auto digit = static_cast<std::uint64_t>(c - '0');
    full = full || __builtin_mul_overflow(digits, std::uint64_t{10}, &sum) || __builtin_add_overflow(sum, digit, &sum);
    if (!full) digits = sum;
    return !full;
  };
  for (; is_digit(*at_); ++at_) {
    if (!keep(*at_)) ++exponent;
  }
  if (*at_ == '.') {
    ++at_;
    if (!is_digit(*at_)) fail_json(first, "a number that ends in its point");
    for (full = false; is_digit(*at_); ++at_) {
      if (keep(*at_)) --exponent;
    }
  }
  if (*at_ == 'e' || *at_ == 'E') {
    ++at_;
    const bool negative = *at_ == '-';
    if (*at_ == '-' || *at_ == '+') ++at_;
    if (!is_digit(*at_)) fail_json(first, "a number without an exponent after its e");
    std::int64_t written = 0;
    for (; is_digit(*at_); ++at_) {
      written = std::min<std::int64_t>(written * 10 + (*at_ - '0'), std::numeric_limits<std::int32_t>::max());
    }
    exponent += negative ? -written : written;
  }
  if (!fits_double(digits, exponent)) fail_json(first, "a number beyond the range of a double");
}

void Scanner::skip_key() {
  if (peek() != '"') fail_expected(*this, '"');
  ++at_;
  skip_string();
  expect(':');
}

Scanner Scanner::after_value(Scanner in, unsigned depth) {
  const unsigned outside = depth;
  std::bitset<kMaxDepth + 1> in_object;
  for (;;) {
    const char c = in.peek();
    if (c == '{' || c == '[') {
      if (++depth > kMaxDepth) in.fail_json(in.at_, "nested deeper than 127 containers");
      ++in.at_;
      in_object[depth] = c == '{';
      if (!in.take(c == '{' ? '}' : ']')) {
        if (in_object[depth]) in.skip_key();
        continue;
      }
      --depth;
    } else if (c == '"') {
      ++in.at_;
      in.skip_string();
    } else if (c == '-' || is_digit(c)) {
      in.skip_number();
    } else {
      in.skip_word(c == 't' ? "true" : c == 'f' ? "false" : "null");
    }
    for (;; --depth) {  // close what ends here
      if (depth == outside) return in;
      if (in.take(',')) break;
      in.expect(in_object[depth] ? '}' : ']');
    }
    if (in_object[depth]) in.skip_key();
  }
}

void Scanner::expect_end() {
  peek();
  if (at_ != text_->end) fail_json(at_, "more text after the end of the object");
}

std::size_t JsonText::expected_items(std::size_t found, const char* at, std::size_t least) const {
  constexpr std::size_t kFirst = 64;  // they show how long one is
  const auto all = static_cast<double>(end - begin);
  if (found == 0) return 16 + std::min(kFirst, static_cast<std::size_t>(all) / least);
  const double expected = static_cast<double>(found) * all / static_cast<double>(at - begin);
  return found + 16 + static_cast<std::size_t>((expected - static_cast<double>(found)) * 1.0625);
}

// ---- errors ------------------------------------------------------------------------------------------------------------

void JsonText::fail_here(Status status, std::uint64_t offset, std::string_view what) const {
  if (tensor.data() == nullptr) fail_at(status, offset, "{}: {}", document, what);
  fail_at(status, offset, "tensor {}: {}", quoted(tensor), what);
}

void Scanner::fail_json(const char* where, std::string_view what) const {
  const std::uint64_t offset = text_->offset_of(std::min<const char*>(where, text_->end));
  text_->fail_here(Status::json, offset, fmt::format("{} (byte {} of the file)", what, offset));
}

void Scanner::fail_expected(Scanner in, char c) {
  if (in.at_ >= in.text_->end) in.fail_json(in.at_, fmt::format("the text ends where '{}' was expected", c));
  const auto found = static_cast<unsigned char>(*in.at_);
  if (found < 0x20 || found >= 0x7F) {
    in.fail_json(in.at_, fmt::format("expected '{}' and not byte 0x{:02x}", c, found));
  }
  in.fail_json(in.at_, fmt::format("expected '{}' and not '{}'", c, *in.at_));
}

}  // namespace st::format
