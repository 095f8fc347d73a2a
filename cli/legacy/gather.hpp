// The elements of a tensor with strides, one after the other.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>

#include "checkpoint.hpp"

namespace cli::legacy {

using TakeBytes = std::function<void(const char* bytes, std::size_t n)>;

// The file is mapped, since elements may lie anywhere in it. The storage is not packed, and its bytes have been checked
// before. Memory does not grow with the tensor.
void gather(const Input& input, const Storage& storage, const Tensor& tensor, const TakeBytes& take);

}  // namespace cli::legacy
