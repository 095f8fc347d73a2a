// The float types that the library converts.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include <safetensors/safetensors.hpp>

namespace cli {

bool is_convertible(safetensors::Dtype dtype);
std::vector<std::string> convertible_names();
std::string names_of_convertible();  // "F64, F32, ..."

}  // namespace cli
