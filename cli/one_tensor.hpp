// The tensor that `cat`, `extract` and `set` name.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <safetensors/safetensors.hpp>

namespace cli {

// Throws a Failure with a similar name as a suggestion if there is no such tensor. `path` is the path of the model.
safetensors::Tensor tensor_named(const safetensors::SafeOpen& file, const std::string& path, const std::string& name);

// Returns numpy's type of the elements, for example "<f4". BF16 and the 8-bit floats become void types of the same
// size, because numpy lacks them. Use .view() with ml_dtypes to read them. Throws a Failure for sub-byte types.
std::string npy_type(const safetensors::Tensor& tensor);

}  // namespace cli
