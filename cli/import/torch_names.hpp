// The names of torch that tensors and dictionaries are made of.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include <safetensors/safetensors.h>

#include "pickle.hpp"

namespace cli::importer {

enum class TorchName {
  ordered_dict,
  rebuild_tensor_v1,
  rebuild_tensor,
  rebuild_tensor_v3,
  rebuild_parameter,
  rebuild_from_type,  // with attributes
  tensor_class,
  parameter_class,
  size,
  dtype,
  storage,
  untyped,
  unknown
};

struct TorchGlobal {
  TorchName meaning = TorchName::dtype;
  std::string_view name;              // torch's: "FloatStorage", "bfloat16"; with its module if it is unknown
  st_dtype dtype = ST_DTYPE_UNKNOWN;  // unknown: safetensors has none
  unsigned bytes = 0;                 // of an element in the file
};

// Returns the known names. All others are unknown.
std::span<const Global> torch_globals();

// number: of a known name.
TorchGlobal torch_global(std::int64_t number);

// value: of kind `global` or `call`.
TorchGlobal torch_global(const Value& value);

// Returns whether an unknown function makes tensors, such as quantized and sparse ones.
bool makes_tensor(std::string_view function);

}  // namespace cli::importer
