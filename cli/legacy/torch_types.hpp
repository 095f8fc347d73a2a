// The names that a torch checkpoint may use, and what each stands for. There are no others.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string_view>

#include <safetensors/safetensors.h>

#include "pickle.hpp"

namespace cli::legacy {

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
  untyped
};

struct TorchGlobal {
  TorchName meaning = TorchName::dtype;
  std::string_view name;              // as torch calls it: "FloatStorage", "bfloat16"
  st_dtype dtype = ST_DTYPE_UNKNOWN;  // unknown: safetensors has none
  unsigned bytes = 0;                 // of an element in the file
};

std::span<const Global> torch_globals();

// number: that of a value of kind `global` or `call`.
TorchGlobal torch_global(std::int64_t number);

}  // namespace cli::legacy
