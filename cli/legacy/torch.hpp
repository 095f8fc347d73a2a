// From the values of a torch pickle to tensors: the two containers of torch.save share this.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "checkpoint.hpp"
#include "pickle.hpp"
#include "torch_types.hpp"

namespace cli::legacy {

// What a pickle says of a storage, which lies outside of it.
struct StorageName {
  std::string_view key;
  TorchGlobal type;
  std::uint64_t elements = 0;
  std::uint64_t offset = 0;  // for messages
};

// value: of kind `persistent`. Throws a Refusal.
StorageName read_storage_name(const Pickle& pickle, const Value& value);

// Returns its bytes. Throws a Refusal if they cannot be counted.
std::uint64_t bytes_of(const StorageName& name);

// Returns the number of the storage in the checkpoint.
using FindStorage = std::function<std::size_t(const StorageName&)>;

// Adds all tensors of a dictionary, or of the one that it calls state_dict, which other dictionaries and lists may
// hold: their names are joined by dots. Throws a Refusal.
void add_tensors(const Pickle& pickle, const FindStorage& find, Checkpoint& checkpoint);

// The zip form, since torch 1.6, and the one of pickles and storages that follow each other before.
Checkpoint read_torch_zip(std::unique_ptr<const Input> input, const std::vector<ZipEntry>& entries);
Checkpoint read_torch_stacked(std::unique_ptr<const Input> input);

}  // namespace cli::legacy
