// The calls by which torch makes tensors: bare ones, parameters, and tensors with attributes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "pickle.hpp"
#include "torch_types.hpp"

namespace cli::legacy {

struct TorchCall {
  std::int64_t function = 0;  // its number among torch_globals()
  ValueId arguments = 0;      // a tuple
  std::uint64_t offset = 0;
};

TorchName meaning_of(const TorchCall& call);

// The call that makes the bare tensor of a value of kind `call`, without the parameter and the attributes around it.
// Throws a Refusal.
TorchCall tensor_call(const Pickle& pickle, const Value& value);

}  // namespace cli::legacy
