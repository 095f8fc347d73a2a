// All tensors of all shards of a model under one index, when there are several shards.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory_resource>
#include <optional>
#include <span>
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
  NameIndex<MetadataPair> metadata_index;
  bool has_metadata = false;
  std::vector<std::string> warnings;  // what is odd and no error

  explicit Catalog(std::pmr::memory_resource* memory)
      : arena(memory), tensors(memory), index(memory), metadata(memory), metadata_index(memory) {}
};

struct HashedName {
  std::uint32_t hash;
  std::uint32_t number;  // of the tensor
};

// The names of a shard, by the part of the catalog's index that they belong to, and in the order of the tensors there.
struct NameHashes {
  std::vector<HashedName> names;
  std::array<std::uint32_t, NameIndex<TensorRef>::kParts> end{};

  std::span<const HashedName> of_part(std::size_t part) const {
    const std::size_t first = part == 0 ? 0 : end[part - 1];
    return std::span(names).subspan(first, end[part] - first);
  }
};

NameHashes hash_names(const Table& table, std::uint64_t seed);

// Whether a name may be there twice: always true if one is.
bool may_repeat(const NameHashes& hashes);

struct SameName {
  const Tensor* first;
  const Tensor* second;
};

// Puts the tensors of all shards under one index, on several threads. Returns the first tensor whose name another has
// before it, if there is one; the index then lacks what comes later.
std::optional<SameName> gather(const std::pmr::deque<Shard>& shards, std::span<const NameHashes> hashes,
                               std::uint64_t seed, unsigned threads, Catalog& catalog);

// What the index says of the model, then what the first shard says besides.
void add_metadata(Catalog& catalog, const std::pmr::vector<MetadataPair>& of_index,
                  const std::pmr::deque<Shard>& shards, std::uint64_t seed);

}  // namespace st::core
