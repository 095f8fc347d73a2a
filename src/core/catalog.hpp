// All tensors of all shards of a model under one index, when there are several shards.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <memory_resource>
#include <string>
#include <string_view>
#include <vector>

#include "core/shard.hpp"

namespace st::core {

struct TensorRef {
  const Tensor* tensor;
  std::string_view name() const { return tensor->name(); }
};

struct Catalog {
  std::pmr::monotonic_buffer_resource arena;  // what metadata points to
  std::pmr::vector<TensorRef> tensors;        // shard after shard, each in data order
  NameIndex<TensorRef> index;
  std::pmr::vector<MetadataPair> metadata;  // the index file's, then what the first shard adds
  NameIndex<MetadataPair> metadata_index;   // the first of a key that the index file gives twice
  std::vector<std::string> warnings;        // what is odd and no error

  explicit Catalog(std::pmr::memory_resource* memory)
      : arena(memory), tensors(memory), index(memory), metadata(memory), metadata_index(memory) {}
};

// Puts the tensors of all shards under one index. Throws Status::shard when a name is in two of them.
void gather(const std::pmr::deque<Shard>& shards, std::uint64_t seed, Catalog& catalog);

// What the index says of the model, then what the first shard says besides.
void add_metadata(Catalog& catalog, const std::pmr::vector<MetadataPair>& of_index,
                  const std::pmr::deque<Shard>& shards, std::uint64_t seed);

}  // namespace st::core
