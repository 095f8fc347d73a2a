// Turns the values of a torch pickle into tensors, for both containers of torch.save.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "checkpoint.hpp"
#include "pickle.hpp"
#include "torch_names.hpp"

namespace cli::importer {

// A reference to a storage, which is outside the pickle.
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

// Adds all tensors of the dictionary at `key`, which may be several keys joined by dots. An empty key stands for the
// root's item `state_dict`, or for the root if there is none. Names from nested dictionaries and lists are joined by
// dots. Throws an ImportError.
void add_tensors(const Pickle& pickle, const std::string& key, const FindStorage& find, Checkpoint& checkpoint);

}  // namespace cli::importer
