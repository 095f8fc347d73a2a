// Arithmetic on sizes. What adds or multiplies numbers that come from a file reports overflow.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "base/compiler.hpp"

namespace st {

// For values that are far from 2^64.
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
