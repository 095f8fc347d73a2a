// Arithmetic on sizes. Sums and products of numbers from a file report overflow.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "base/compiler.hpp"

namespace st {

// For compilers without builtins.
namespace plain {

[[nodiscard]] constexpr bool checked_add(std::uint64_t a, std::uint64_t b, std::uint64_t& sum) {
  sum = a + b;
  return sum >= a;
}

[[nodiscard]] constexpr bool checked_mul(std::uint64_t a, std::uint64_t b, std::uint64_t& product) {
  product = a * b;
  return a == 0 || product / a == b;
}

constexpr std::uint64_t reversed_bytes(std::uint64_t value) {
  std::uint64_t reversed = 0;
  for (int i = 0; i < 8; ++i, value >>= 8) reversed = reversed << 8 | (value & 0xFF);
  return reversed;
}

}  // namespace plain

#if ST_GNU_CXX

// Stores the result modulo 2^64, and returns whether there was no overflow.
[[nodiscard]] inline bool checked_add(std::uint64_t a, std::uint64_t b, std::uint64_t& sum) {
  return !__builtin_add_overflow(a, b, &sum);
}

[[nodiscard]] inline bool checked_mul(std::uint64_t a, std::uint64_t b, std::uint64_t& product) {
  return !__builtin_mul_overflow(a, b, &product);
}

inline std::uint64_t reversed_bytes(std::uint64_t value) { return __builtin_bswap64(value); }

#else

using plain::checked_add;
using plain::checked_mul;
using plain::reversed_bytes;

#endif

// For values far below 2^64.
constexpr std::uint64_t align_down(std::uint64_t value, std::uint64_t to) { return value / to * to; }
constexpr std::uint64_t align_up(std::uint64_t value, std::uint64_t to) { return align_down(value + to - 1, to); }

// Returns nullopt if any step overflows, left to right: of [2^63,2^63,0], not of [0,2^63,2^63] (docs/format.md 1.1, 7).
[[nodiscard]] inline std::optional<std::uint64_t> element_count(std::span<const std::uint64_t> shape) {
  std::uint64_t product = 1;
  for (const std::uint64_t dim : shape) {
    if (!checked_mul(product, dim, product)) return std::nullopt;
  }
  return product;
}

}  // namespace st
