// The torch names from which tensors and dictionaries are built.
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
  std::string_view name;              // as in torch: "FloatStorage", "bfloat16"; with the module if unknown
  st_dtype dtype = ST_DTYPE_UNKNOWN;  // unknown if safetensors has no such dtype
  unsigned bytes = 0;                 // of an element in the file
};

// Returns the known names. Any other name counts as unknown.
std::span<const Global> torch_globals();

// number: the index of a known name.
TorchGlobal torch_global(std::int64_t number);

// value: of kind `global` or `call`.
TorchGlobal torch_global(const Value& value);

// Returns whether an unknown function creates tensors, for example quantized or sparse ones.
bool makes_tensor(std::string_view function);

}  // namespace cli::importer
