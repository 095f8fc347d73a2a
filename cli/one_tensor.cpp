// SPDX-License-Identifier: Apache-2.0
#include "one_tensor.hpp"

#include <string_view>

#include "base/dtype.hpp"
#include "failure.hpp"
#include "text.hpp"

namespace cli {

safetensors::Tensor tensor_named(const safetensors::SafeOpen& file, const std::string& path, const std::string& name) {
  try {
    return file.get_tensor(name);
  } catch (const safetensors::Error& error) {
    const Failure failure = failure_in(path, error);
    throw Failure{failure.code, failure.line + did_you_mean(name, file.offset_keys())};
  }
}

std::string npy_type(const safetensors::Tensor& tensor) {
  const std::string_view type = st::info(static_cast<st::Dtype>(tensor.dtype)).numpy;
  const std::uint32_t bits = safetensors::bits(tensor.dtype);
  if (!type.empty()) return formatted("{}{}", bits > 8 ? '<' : '|', type);
  if (bits == 8 || bits == 16) return formatted("|V{}", bits / 8);
  throw Failure{kUsage, formatted("tensor {}: .npy has no type for {}; use raw bytes instead", shown(tensor.name, 80),
                                  tensor.dtype_name())};
}

}  // namespace cli
