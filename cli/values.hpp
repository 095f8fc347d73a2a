// Statistics of tensor values, and the dtypes that have them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include <safetensors/safetensors.hpp>

namespace cli {

// Holds any I64 or U64 value, since no built-in type covers both.
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
  std::uint64_t finite = 0;
  double sum = 0;  // sum, min and max include only finite values
  double min = std::numeric_limits<double>::infinity();
  double max = -std::numeric_limits<double>::infinity();
  double scaled_sum = 0;  // sum times kScale, used if `sum` overflows
  // Exact minimum and maximum of integers.
  Integer least{false, std::numeric_limits<std::uint64_t>::max()};
  Integer largest{true, 0};
  bool integers = true;  // all values are integers

  static constexpr double kScale = 0x1p-64;  // because a tensor has fewer than 2^64 values

  void add(const Values& other);
  double mean() const;
};

// Returns whether values of this dtype can be scanned. Sub-byte types cannot.
bool has_values(safetensors::Dtype dtype);
bool is_float(safetensors::Dtype dtype);

// The float types that the library converts.
bool is_convertible(safetensors::Dtype dtype);
std::vector<std::string> convertible_names();
std::string names_of_convertible();  // "F64, F32, ..."

// Adds whole elements to the statistics.
void add_values(safetensors::Dtype dtype, std::span<const std::byte> bytes, Values& values);

}  // namespace cli
