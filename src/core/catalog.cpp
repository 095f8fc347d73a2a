// SPDX-License-Identifier: Apache-2.0
#include "core/catalog.hpp"

#include <algorithm>
#include <cstring>

namespace st::core {

namespace {

std::string_view keep(std::pmr::memory_resource& memory, std::string_view text) {
  auto* const copy = static_cast<char*>(memory.allocate(text.size() + 1, 1));
  std::memcpy(copy, text.data(), text.size());
  copy[text.size()] = '\0';
  return {copy, text.size()};
}

}  // namespace

void gather(std::pmr::deque<Shard>& shards, std::uint64_t seed, Catalog& catalog) {
  std::size_t count = 0;
  for (const Shard& shard : shards) count += shard.table.tensors.size();
  catalog.tensors.reserve(count);
  catalog.index.reset(count, seed);
  for (Shard& shard : shards) {
    const auto first = static_cast<std::uint32_t>(catalog.tensors.size());
    for (const Tensor& tensor : shard.table.tensors) catalog.tensors.push_back({&tensor});
    // The names were hashed when the shard was read; only their places are new.
    shard.table.index.for_each([&](std::uint32_t hash, std::uint32_t number) {
      const std::uint32_t other = catalog.index.insert_hashed(catalog.tensors.data(), first + number, hash);
      if (other == NameIndex<TensorRef>::kNone) return;
      fail(Status::shard, "tensor {} is in two shards, {} and {}", quoted(catalog.tensors[other].name()),
           quoted(catalog.tensors[other].tensor->shard->path), quoted(shard.path));
    });
    shard.table.index = NameIndex<Tensor>(shard.memory);
  }
}

void add_metadata(Catalog& catalog, const std::pmr::vector<MetadataPair>& of_index,
                  const std::pmr::deque<Shard>& shards) {
  auto& all = catalog.metadata;
  for (const auto& [key, value] : of_index) all.push_back({keep(catalog.arena, key), keep(catalog.arena, value)});
  if (shards.empty()) return;
  const std::size_t of_the_index = all.size();
  for (const MetadataPair& pair : shards.front().table.metadata) {
    const auto end = all.begin() + static_cast<std::ptrdiff_t>(of_the_index);
    if (std::none_of(all.begin(), end, [&](const auto& known) { return known.key == pair.key; })) all.push_back(pair);
  }
}

}  // namespace st::core
