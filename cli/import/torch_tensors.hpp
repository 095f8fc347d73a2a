// Turns the values of a torch pickle into tensors. Both containers of torch.save use it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

#include <safetensors/safetensors.h>

#include "checkpoint.hpp"
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
  untyped
};

struct TorchGlobal {
  TorchName meaning = TorchName::dtype;
  std::string_view name;              // torch's: "FloatStorage", "bfloat16"
  st_dtype dtype = ST_DTYPE_UNKNOWN;  // unknown: safetensors has none
  unsigned bytes = 0;                 // of an element in the file
};

// Returns the names that a torch checkpoint may use. All others are rejected.
std::span<const Global> torch_globals();

// A reference to a storage, which is outside of the pickle.
struct StorageName {
  std::string_view key;
  TorchGlobal type;
  std::uint64_t elements = 0;
  std::uint64_t offset = 0;  // for messages
};

// Throws an ImportError if the value does not name a storage.
StorageName read_storage_name(const Pickle& pickle, const Value& value);

// Returns the size of the storage. Throws an ImportError on overflow.
std::uint64_t bytes_of(const StorageName& name);

// Returns the index of the storage in the checkpoint.
using FindStorage = std::function<std::size_t(const StorageName&)>;

// Adds all tensors of the root dictionary, or of its item `state_dict` if it has one. Joins the names in nested
// dictionaries and lists by dots. Throws an ImportError.
void add_tensors(const Pickle& pickle, const FindStorage& find, Checkpoint& checkpoint);

}  // namespace cli::importer
