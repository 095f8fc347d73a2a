// SPDX-License-Identifier: Apache-2.0
#include "base/text.hpp"

#include <algorithm>
#include <array>
#include <optional>

namespace st {

namespace {

constexpr std::size_t kQuotedBytes = 79;      // a message has 231 bytes, and also needs room for numbers
constexpr std::size_t kEndBytes = 38;         // kept at each end of a longer name, because paths differ there
constexpr std::size_t kLongestCharacter = 4;  // of UTF-8, in bytes; a longer run is not a character

// Returns the character that these bytes encode, or nullopt if they are not UTF-8. Paths may contain any bytes.
std::optional<char32_t> decoded(std::string_view bytes) {
  const auto lead = static_cast<unsigned char>(bytes[0]);
  const std::size_t size = lead < 0x80 ? 1 : lead < 0xC2 ? 0 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : lead < 0xF5 ? 4 : 0;
  if (size != bytes.size()) return std::nullopt;
  char32_t code = size == 1 ? lead : lead & (0x7FU >> size);
  for (const char c : bytes.substr(1)) code = code << 6 | (static_cast<unsigned char>(c) & 0x3FU);
  constexpr std::array<char32_t, 5> kSmallest{0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
  if (code < kSmallest[size] || code > 0x10FFFF || surrogate) return std::nullopt;
  return code;
}

struct Range {
  char32_t first;
  char32_t last;
};

// Characters that end a line or act on a terminal: controls, separators, and direction marks.
constexpr std::array<Range, 8> kUnsafe{{{0x00, 0x1F},
                                        {0x7F, 0x9F},
                                        {0x061C, 0x061C},
                                        {0x200B, 0x200F},
                                        {0x2028, 0x202E},
                                        {0x2060, 0x206F},
                                        {0xFEFF, 0xFEFF},
                                        {0xFFF9, 0xFFFB}}};

std::string visible(std::string_view character) {
  const std::optional<char32_t> code = decoded(character);
  const auto holds = [&](const Range& range) { return *code >= range.first && *code <= range.last; };
  if (code && std::none_of(kUnsafe.begin(), kUnsafe.end(), holds)) return std::string(character);
  if (code && *code >= 0x80) return formatted("\\u{:04x}", static_cast<std::uint32_t>(*code));
  std::string text;
  for (const char c : character) text += formatted("\\x{:02x}", static_cast<unsigned char>(c));
  return text;
}

// Returns the printable form of the longest prefix that takes at most `most` bytes. Sets `bytes` to the prefix's
// length.
std::string beginning_of(std::string_view name, std::size_t most, std::size_t& bytes) {
  std::string text;
  for (bytes = 0; bytes < name.size();) {
    std::size_t next = bytes + 1;
    while (next < name.size() && next - bytes < kLongestCharacter && continues_character(name[next])) ++next;
    const std::string shown = visible(name.substr(bytes, next - bytes));
    if (text.size() + shown.size() > most) break;
    text += shown;
    bytes = next;
  }
  return text;
}

// Same for the longest suffix.
std::string end_of(std::string_view name, std::size_t most) {
  std::string text;
  for (std::size_t end = name.size(); end > 0;) {
    std::size_t begin = end - 1;
    while (begin > 0 && end - begin < kLongestCharacter && continues_character(name[begin])) --begin;
    const std::string shown = visible(name.substr(begin, end - begin));
    if (text.size() + shown.size() > most) break;
    text.insert(0, shown);
    end = begin;
  }
  return text;
}

}  // namespace

std::string formatted_text(fmt::string_view text, fmt::format_args args) { return fmt::vformat(text, args); }

std::string in_quotes(std::string_view name) {
  std::size_t shown = 0;
  const std::string whole = beginning_of(name, kQuotedBytes, shown);
  if (shown == name.size()) return "'" + whole + "'";
  return "'" + beginning_of(name, kEndBytes, shown) + "..." + end_of(name, kEndBytes) + "'";
}

std::string one_line(std::string_view text) {
  std::size_t bytes = 0;
  return beginning_of(text, text.max_size(), bytes);
}

std::string scaled(std::uint64_t value, std::span<const std::string_view> units) {
  if (value < 1000) return formatted("{}{}", value, units[0]);
  std::uint64_t in_unit = 1000;
  std::size_t unit = 1;
  // Uses integers, because the x87's extra precision would shift the limits.
  while (unit + 1 < units.size() && value >= 1000 * in_unit - in_unit / 20) {
    in_unit *= 1000;
    ++unit;
  }
  const std::uint64_t tenths = value / in_unit * 10 + (value % in_unit + in_unit / 20) / (in_unit / 10);
  return formatted("{}.{}{}", tenths / 10, tenths % 10, units[unit]);
}

std::string human_bytes(std::uint64_t bytes) {
  static constexpr std::array<std::string_view, 7> kUnits{" bytes", " kB", " MB", " GB", " TB", " PB", " EB"};
  return scaled(bytes, kUnits);
}

}  // namespace st
