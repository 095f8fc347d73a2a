// SPDX-License-Identifier: Apache-2.0
#include "io/win32/shard_name.hpp"

#include <algorithm>
#include <array>
#include <string>

#include "base/error.hpp"

namespace st::io {

namespace {

[[noreturn]] void refuse(std::string_view name, std::string_view why) {
  fail(Status::shard, "shard {} {}, and cannot be a file of its folder on Windows", in_quotes(name), why);
}

// The digits 1 to 9 and the superscripts of 1 to 3, in UTF-8.
bool is_port_number(std::string_view text) {
  return (text.size() == 1 && text[0] >= '1' && text[0] <= '9') || text == "\xC2\xB9" || text == "\xC2\xB2" ||
         text == "\xC2\xB3";
}

// Whatever follows a dot or a colon, and spaces before that, do not matter.
bool is_device(std::string_view part) {
  std::string name(part.substr(0, part.find('.')));
  name.erase(name.find_last_not_of(' ') + 1);
  std::transform(name.begin(), name.end(), name.begin(), [](char c) { return c >= 'a' && c <= 'z' ? c - 32 : c; });
  constexpr std::array<std::string_view, 7> kDevices{"CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$", "CLOCK$"};
  if (std::find(kDevices.begin(), kDevices.end(), name) != kDevices.end()) return true;
  return (name.starts_with("COM") || name.starts_with("LPT")) && is_port_number(std::string_view(name).substr(3));
}

void require_part(std::string_view part, std::string_view whole) {
  if (part.empty()) refuse(whole, "has an empty part");
  if (part == "." || part == "..") refuse(whole, "has a part '.' or '..'");
  if (part.back() == '.' || part.back() == ' ') refuse(whole, "has a part that ends with a dot or a space");
  if (is_device(part)) refuse(whole, "is the name of a device");
}

}  // namespace

void require_file_name(std::string_view name) {
  const auto is_reserved = [](char c) {
    return static_cast<unsigned char>(c) < 0x20 || std::string_view("\\:*?\"<>|").find(c) != std::string_view::npos;
  };
  if (std::any_of(name.begin(), name.end(), is_reserved)) refuse(name, "holds a character that Windows reserves");
  for (std::size_t at = 0; at <= name.size();) {
    const std::size_t end = std::min(name.find('/', at), name.size());
    require_part(name.substr(at, end - at), name);
    at = end + 1;
  }
}

}  // namespace st::io
