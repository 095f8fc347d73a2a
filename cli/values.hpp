// What the values of tensors are like: the smallest, the largest, their mean, and how many are of a special kind.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>

#include <safetensors/safetensors.hpp>

namespace cli {

// One of I64 or of U64, which have no common type.
struct Integer {
  bool negative;
  std::uint64_t bits;  // in two's complement

  friend bool operator<(const Integer& a, const Integer& b) {
    return a.negative != b.negative ? a.negative : a.bits < b.bits;
  }
};

struct Values {
  std::uint64_t count = 0;
  std::uint64_t zeros = 0;
  std::uint64_t nans = 0;
  std::uint64_t infinities = 0;
  std::uint64_t denormals = 0;
  std::uint64_t finite = 0;  // that the next three are about
  double sum = 0;
  double min = std::numeric_limits<double>::infinity();
  double max = -std::numeric_limits<double>::infinity();
  double scaled_sum = 0;  // times kScale, for where `sum` is too large
  // Of integers, which double cannot hold exactly.
  Integer least{false, std::numeric_limits<std::uint64_t>::max()};
  Integer largest{true, 0};
  bool integers = true;  // all of them

  static constexpr double kScale = 0x1p-64;  // as there are fewer values than that

  void add(const Values& other);
  double mean() const;
};

// Whether the values of this dtype can be looked at: not those of types below a byte.
bool has_values(safetensors::Dtype dtype);
bool is_float(safetensors::Dtype dtype);

// Adds the elements in these bytes.
void add_values(safetensors::Dtype dtype, std::span<const std::byte> bytes, Values& values);

}  // namespace cli
