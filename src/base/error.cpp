// Words for messages: what the system said, names from hostile files, sizes for people.
// SPDX-License-Identifier: Apache-2.0
#include "base/error.hpp"

#include <array>
#include <system_error>

namespace st {

namespace {

constexpr std::size_t kQuotedBytes = 80;  // a message has 231 bytes, and must still hold the numbers

bool continues_character(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

std::string_view cut_to_characters(std::string_view text, std::size_t most) {
  if (text.size() <= most) return text;
  while (most > 0 && continues_character(text[most])) --most;
  return text.substr(0, most);
}

}  // namespace

std::string os_error_text(int os_error) { return std::generic_category().message(os_error); }

std::string quoted(std::string_view name) {
  const std::string_view shown = cut_to_characters(name, kQuotedBytes);
  std::string text = "'";
  for (const char c : shown) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7F) {
      text += fmt::format("\\x{:02x}", byte);
    } else {
      text += c;
    }
  }
  text += shown.size() < name.size() ? "...'" : "'";
  return text;
}

std::string human_bytes(std::uint64_t bytes) {
  constexpr std::array kUnits{"bytes", "kB", "MB", "GB", "TB", "PB", "EB"};
  if (bytes < 1000) return fmt::format("{} {}", bytes, kUnits[0]);
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 999.95 && unit + 1 < kUnits.size()) {
    value /= 1000;
    ++unit;
  }
  return fmt::format("{:.1f} {}", value, kUnits[unit]);
}

}  // namespace st
