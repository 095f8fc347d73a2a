// Bytes of UTF-8 text.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstring>
#include <memory_resource>
#include <string_view>

namespace st {

// Whether this is not the first byte of a character.
constexpr bool continues_character(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

// Returns a copy in `memory`, with a NUL behind it.
inline std::string_view copy_text(std::pmr::memory_resource& memory, std::string_view text) {
  auto* const copy = static_cast<char*>(memory.allocate(text.size() + 1, 1));
  if (!text.empty()) std::memcpy(copy, text.data(), text.size());
  copy[text.size()] = '\0';
  return {copy, text.size()};
}

}  // namespace st
