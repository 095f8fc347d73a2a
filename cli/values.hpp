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
  // Of integers, which double cannot hold exactly; I64 and U64 have no common type either.
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  std::uint64_t largest = 0;  // if it is above 0
  bool integers = true;       // all of them

  void add(const Values& other);
  double mean() const { return finite == 0 ? 0 : sum / static_cast<double>(finite); }
};

// Whether the values of this dtype can be looked at: not those of types below a byte.
bool has_values(safetensors::Dtype dtype);
bool is_float(safetensors::Dtype dtype);

// Adds the elements in these bytes.
void add_values(safetensors::Dtype dtype, std::span<const std::byte> bytes, Values& values);

}  // namespace cli
