// SPDX-License-Identifier: Apache-2.0
#include "core/catalog.hpp"

#include <array>
#include <cstring>
#include <span>

#include "base/error.hpp"

namespace st::core {

namespace {

std::string_view keep(std::pmr::memory_resource& memory, std::string_view text) {
  auto* const copy = static_cast<char*>(memory.allocate(text.size() + 1, 1));
  std::memcpy(copy, text.data(), text.size());
  copy[text.size()] = '\0';
  return {copy, text.size()};
}

// The names were hashed when their shard was read; only their places are new. They are put there a few at a time, so
// that nobody waits for memory.
class Places {
 public:
  explicit Places(Catalog& catalog) : catalog_(catalog) {}

  void add(std::uint32_t hash, std::uint32_t number) {
    catalog_.index.prefetch(hash);
    few_[count_++] = {hash, number};
    if (count_ == few_.size()) flush();
  }

  void flush() {
    const auto& tensors = catalog_.tensors;
    for (std::size_t i = 0; i < count_; ++i) {
      const auto [hash, number] = few_[i];
      const std::uint32_t other = catalog_.index.insert_hashed(tensors.data(), number, hash);
      if (other == catalog_.index.kNone) continue;
      fail(Status::shard, "tensor {} is in two shards, {} and {}", in_quotes(tensors[other].name()),
           in_quotes(tensors[other].tensor->shard->path), in_quotes(tensors[number].tensor->shard->path));
    }
    count_ = 0;
  }

 private:
  struct Known {
    std::uint32_t hash;
    std::uint32_t number;
  };

  Catalog& catalog_;
  std::array<Known, 16> few_{};
  std::size_t count_ = 0;
};

}  // namespace

void gather(const std::pmr::deque<Shard>& shards, std::uint64_t seed, Catalog& catalog) {
  std::size_t count = 0;
  for (const Shard& shard : shards) count += shard.table.tensors.size();
  if (count >= UINT32_MAX) fail(Status::overflow, "a checkpoint of {} tensors", count);
  catalog.tensors.reserve(count);
  catalog.index.reset(count, seed);
  Places places(catalog);
  for (const Shard& shard : shards) {
    const auto first = static_cast<std::uint32_t>(catalog.tensors.size());
    for (const Tensor& tensor : shard.table.tensors) catalog.tensors.push_back({&tensor});
    shard.table.index.for_each([&](std::uint32_t hash, std::uint32_t number) { places.add(hash, first + number); });
  }
  places.flush();
}

void add_metadata(Catalog& catalog, const std::pmr::vector<MetadataPair>& of_index,
                  const std::pmr::deque<Shard>& shards, std::uint64_t seed) {
  auto& all = catalog.metadata;
  auto& index = catalog.metadata_index;
  const std::span<const MetadataPair> of_shard =
      shards.empty() ? std::span<const MetadataPair>() : shards.front().table.metadata;
  const std::size_t most = of_index.size() + of_shard.size();
  if (most >= UINT32_MAX) fail(Status::overflow, "a checkpoint of {} metadata pairs", most);
  all.reserve(most);
  index.reset(most, seed);
  const auto number_of_last = [&all] { return static_cast<std::uint32_t>(all.size() - 1); };
  for (const auto& [key, value] : of_index) {
    all.push_back({keep(catalog.arena, key), keep(catalog.arena, value)});
    index.insert(all.data(), number_of_last());
  }
  for (const MetadataPair& pair : of_shard) {
    all.push_back(pair);
    if (index.insert(all.data(), number_of_last()) != index.kNone) all.pop_back();
  }
}

}  // namespace st::core
