// Converts float values for `cast`, and counts the values that the new dtype cannot hold.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <safetensors/safetensors.hpp>

namespace cli {

// Returns whether the float dtype can represent infinity.
bool has_infinity(safetensors::Dtype dtype);

class Converter {
 public:
  // saturate: values out of range become the nearest finite number. Infinity stays infinity if the dtype has it.
  explicit Converter(bool saturate) : saturate_(saturate) {}

  // Converts whole values. `converted` must have exactly the size of the result.
  void convert(safetensors::Dtype from, std::span<const std::byte> values, safetensors::Dtype to,
               std::span<std::byte> converted);

  // Returns how many finite values so far became infinity or NaN, or would have without `saturate`.
  std::uint64_t out_of_range() const { return out_of_range_; }

 private:
  bool saturate_;
  std::uint64_t out_of_range_ = 0;
};

}  // namespace cli
