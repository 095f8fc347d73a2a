// Text: formatting of messages, names from files in messages, and the bytes of UTF-8.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>
#include <memory_resource>
#include <span>
#include <string>
#include <string_view>

#include <fmt/core.h>

namespace st {

std::string formatted_text(fmt::string_view text, fmt::format_args args);

// Returns text with values in it: formatted("{} of {} bytes", n, size). fmt is header-only: formatted_text() compiles it.
template <class... Args>
std::string formatted(fmt::format_string<Args...> text, const Args&... args) {
  return formatted_text(text, fmt::make_format_args(args...));
}

// Returns a name from a file as one line for a message: quoted, control bytes escaped, at most about 80 bytes. Longer
// names lose their middle.
std::string in_quotes(std::string_view name);

// Returns a number below 1000 and its unit, of the suffixes for 1, 1000, 1000^2 and so on, which include the space.
std::string scaled(std::uint64_t value, std::span<const std::string_view> units);

// Returns text of the caller as one line of UTF-8 for a message: all else is escaped.
std::string one_line(std::string_view text);

// Returns a size such as "1.2 GB", in decimal units.
std::string human_bytes(std::uint64_t bytes);

// std::string_view has these as members since C++20.
constexpr bool starts_with(std::string_view text, std::string_view start) {
  return text.substr(0, start.size()) == start;
}
constexpr bool ends_with(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

// Whether a path names an index: x.index.json, or x.index.fp16.json for a variant, as transformers names it.
constexpr bool is_index_name(std::string_view path) {
  path.remove_prefix(path.rfind('/') + 1);  // npos + 1 is 0
  if (!ends_with(path, ".json")) return false;
  path.remove_suffix(5);
  return ends_with(path, ".index") || ends_with(path.substr(0, path.rfind('.')), ".index");
}

// Returns whether this is a UTF-8 continuation byte.
constexpr bool continues_character(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

// Returns a copy in `memory`, followed by a NUL.
inline std::string_view copy_text(std::pmr::memory_resource& memory, std::string_view text) {
  auto* const copy = static_cast<char*>(memory.allocate(text.size() + 1, 1));
  if (!text.empty()) std::memcpy(copy, text.data(), text.size());
  copy[text.size()] = '\0';
  return {copy, text.size()};
}

}  // namespace st
