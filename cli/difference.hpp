// The data of two tensors, compared byte by byte and as numbers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include <safetensors/safetensors.hpp>

namespace cli {

// Of the same shape, and of the same type unless both can be converted.
struct TensorPair {
  safetensors::SafeOpen file_a;
  safetensors::SafeOpen file_b;
  safetensors::Tensor a;
  safetensors::Tensor b;
};

struct Difference {
  std::uint64_t bytes = 0;  // that differ; not counted for two types
  std::uint64_t first = 0;  // of them, in the tensor
  bool has_values = false;  // floats: the rest is known
  std::uint64_t values = 0;
  std::uint64_t nans = 0;  // where the other one has a number
  double absolute = 0;     // the largest
  double relative = 0;     // to the larger of the two numbers, the largest
};

// Calls `tell` for each pair that differs, in their order.
void for_each_difference(const std::vector<TensorPair>& pairs,
                         const std::function<void(std::size_t, const Difference&)>& tell);

}  // namespace cli
