// The header of a .npy file: numpy's own format for one array.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <safetensors/safetensors.hpp>

namespace cli {

// Throws a Failure for types below a byte, of which numpy has none. BF16 and the 8-bit floats, which numpy does not
// know either, are void types of their size: what ml_dtypes reads with .view().
std::string npy_header(const safetensors::Tensor& tensor, const std::vector<std::uint64_t>& shape);

}  // namespace cli
