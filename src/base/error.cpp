// Words for messages: what the system said, names from hostile files, sizes for people.
// SPDX-License-Identifier: Apache-2.0
#include "base/error.hpp"

#include <array>
#include <system_error>

namespace st {

namespace {

constexpr std::size_t kQuotedBytes = 80;  // a message has 231 bytes, and must still hold the numbers

bool continues_character(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; }

}  // namespace

std::string os_error_text(int os_error) { return std::generic_category().message(os_error); }

std::string quoted(std::string_view name) {
  std::string text = "'";
  for (std::size_t at = 0; at < name.size();) {
    std::size_t end = at + 1;  // of the character at `at`
    while (end < name.size() && continues_character(name[end])) ++end;
    const std::string_view character = name.substr(at, end - at);
    const std::string shown =
        is_control(name[at]) ? fmt::format("\\x{:02x}", static_cast<unsigned char>(name[at])) : std::string(character);
    if (text.size() + shown.size() > kQuotedBytes) return text + "...'";
    text += shown;
    at = end;
  }
  return text + "'";
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
