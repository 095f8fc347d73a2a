// SPDX-License-Identifier: Apache-2.0
#include "format/json/json_writer.hpp"

#include <array>
#include <charconv>

namespace st::format::json {

namespace {

constexpr std::string_view kHexDigits = "0123456789abcdef";

constexpr bool is_plain(char c) { return static_cast<unsigned char>(c) >= 0x20 && c != '"' && c != '\\'; }

// The letter behind the backslash, or 0 where \u00xx is needed.
constexpr char short_escape(char c) {
  switch (c) {
    case '"': return '"';
    case '\\': return '\\';
    case '\b': return 'b';
    case '\f': return 'f';
    case '\n': return 'n';
    case '\r': return 'r';
    case '\t': return 't';
    default: return 0;
  }
}

// Nearly all names need no escape. Without a branch, the compiler looks at many bytes at once.
bool is_all_plain(std::string_view text) {
  unsigned special = 0;
  for (const char c : text) special |= static_cast<unsigned>(!is_plain(c));
  return special == 0;
}

void append_escaped(std::string& out, char c) {
  if (is_plain(c)) {
    out += c;
    return;
  }
  out += '\\';
  if (const char letter = short_escape(c); letter != 0) {
    out += letter;
    return;
  }
  const auto byte = static_cast<unsigned char>(c);
  out += "u00";
  out += kHexDigits[byte >> 4];
  out += kHexDigits[byte & 0xF];
}

}  // namespace

void append_number(std::string& out, std::uint64_t value) {
  std::array<char, 20> digits;
  const auto result = std::to_chars(digits.data(), digits.data() + digits.size(), value);
  out.append(digits.data(), result.ptr);
}

void append_string(std::string& out, std::string_view text) {
  out += '"';
  if (is_all_plain(text)) {
    out += text;
  } else {
    for (const char c : text) append_escaped(out, c);
  }
  out += '"';
}

}  // namespace st::format::json
