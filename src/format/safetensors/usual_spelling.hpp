// How nearly every writer spells an entry of a header: what the parser holds the next entry against, so that it takes
// one that is spelled like the one before without reading it token by token.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/compiler.hpp"
#include "format/header_options.hpp"

namespace st::format::safetensors {

// Compares 1 to 16 bytes; false for any other length. May read 8 bytes past each text.
ST_ALWAYS_INLINE inline bool same_short_text(const char* a, const char* b, std::size_t bytes) {
  const auto differ = [a, b](std::size_t from) {
    std::uint64_t x = 0;
    std::uint64_t y = 0;
    std::memcpy(&x, a + from, 8);
    std::memcpy(&y, b + from, 8);
    return x ^ y;
  };
  if (bytes - 1 >= 8) return bytes - 1 < 16 && (differ(0) | differ(bytes - 8)) == 0;
  const unsigned others = 64 - 8 * static_cast<unsigned>(bytes);
  return (std::endian::native == std::endian::little ? differ(0) << others : differ(0) >> others) == 0;
}

// Compares two words: compilers make a call of memcmp where they take its block for a cold one.
ST_ALWAYS_INLINE inline bool same_16_bytes(const char* a, const char* b) {
  std::array<std::uint64_t, 2> x{};
  std::array<std::uint64_t, 2> y{};
  std::memcpy(x.data(), a, sizeof x);
  std::memcpy(y.data(), b, sizeof y);
  return ((x[0] ^ y[0]) | (x[1] ^ y[1])) == 0;
}

// The text between two places in an entry, as the entry before spelled it. Neighbours mostly have the same dtype. The
// same bytes are the same tokens, so their number is known.
struct Spelling {
  std::array<char, 32> text{};
  std::size_t bytes = 16;  // at least 16, which stands_at() needs

  ST_ALWAYS_INLINE bool stands_at(const char* place) const {
    static_assert(sizeof text <= kPadding);
    const std::size_t rest = bytes - 16;
    return same_16_bytes(place, text.data()) && same_16_bytes(place + rest, text.data() + rest);
  }

  // Returns false if it is shorter than 16 or longer than 32 bytes.
  bool set(const char* begin, const char* end) {
    bytes = static_cast<std::size_t>(end - begin);
    if (bytes < 16 || bytes > text.size()) return false;
    std::copy(begin, end, text.data());
    return true;
  }
};

// What usual entries are held against.
struct UsualSpelling {
  static constexpr std::size_t kOpeningTokens = 9;
  static constexpr std::size_t kMiddleTokens = 5;

  bool known = false;  // of an entry that was read before
  Spelling opening;    // :{"dtype":"F32","shape":[
  Spelling middle;     // ],"data_offsets":[
  std::uint32_t dtype_number = 0;
};

}  // namespace st::format::safetensors
