// SPDX-License-Identifier: Apache-2.0
#include "core/catalog.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>

#include "base/error.hpp"
#include "base/parallel_for.hpp"
#include "base/text.hpp"

namespace st::core {

namespace {

using Index = NameIndex<TensorRef>;

constexpr std::size_t kWorthThreads = 8192;  // tensors

// Returns what the part could not take.
std::vector<HashedName> fill(Index& index, std::size_t part_number, std::span<const NameHashes> shards) {
  std::vector<HashedName> left_over;
  Index::Part part = index.part(part_number);
  std::uint32_t first = 0;
  for (const NameHashes& hashes : shards) {
    for (const auto [hash, number] : hashes.of_part(part_number)) {
      if (!part.insert(hash, first + number)) left_over.push_back({hash, first + number});
    }
    first += static_cast<std::uint32_t>(hashes.names.size());
  }
  return left_over;
}

// In the order of the tensors.
std::optional<SameName> insert_left_over(std::span<const std::vector<HashedName>> parts, Catalog& catalog) {
  std::vector<HashedName> all;
  for (const auto& part : parts) all.insert(all.end(), part.begin(), part.end());
  std::sort(all.begin(), all.end(), [](const HashedName& a, const HashedName& b) { return a.number < b.number; });
  for (const auto [hash, number] : all) {
    const std::uint32_t other = catalog.index.insert_hashed(catalog.tensors.data(), number, hash);
    if (other != catalog.index.kNone) return SameName{catalog.tensors[other].tensor, catalog.tensors[number].tensor};
  }
  return std::nullopt;
}

}  // namespace

NameHashes hash_names(const Table& table, std::uint64_t seed) {
  const auto& tensors = table.tensors;
  std::vector<std::uint32_t> hashes(tensors.size());
  NameHashes result;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    hashes[i] = Index::hash(tensors[i].name(), seed);
    ++result.end[Index::part_of(hashes[i])];
  }
  std::array<std::uint32_t, Index::kParts> next{};
  for (std::size_t part = 1; part < Index::kParts; ++part) {
    next[part] = result.end[part - 1];
    result.end[part] += result.end[part - 1];
  }
  result.names.resize(tensors.size());
  for (std::uint32_t i = 0; i < tensors.size(); ++i) result.names[next[Index::part_of(hashes[i])]++] = {hashes[i], i};
  return result;
}

bool may_repeat(const NameHashes& hashes) {
  std::vector<std::uint32_t> sorted(hashes.names.size());
  std::transform(hashes.names.begin(), hashes.names.end(), sorted.begin(),
                 [](const HashedName& name) { return name.hash; });
  std::sort(sorted.begin(), sorted.end());
  return std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end();
}

std::optional<SameName> gather(const std::pmr::deque<Shard>& shards, std::span<const NameHashes> hashes,
                               std::uint64_t seed, unsigned threads, Catalog& catalog) {
  std::size_t count = 0;
  for (const Shard& shard : shards) count += shard.table.tensors.size();
  if (count >= UINT32_MAX) fail(Status::overflow, "a checkpoint of {} tensors", count);
  catalog.index.make_room(count, seed);
  std::array<std::vector<HashedName>, Index::kParts> left_over;
  parallel_for(1 + Index::kParts, count < kWorthThreads ? 1 : threads, [&](std::size_t round) {
    if (round != 0) {
      left_over[round - 1] = fill(catalog.index, round - 1, hashes);
      return;
    }
    catalog.tensors.clear();
    catalog.tensors.reserve(count);
    for (const Shard& shard : shards) {
      for (const Tensor& tensor : shard.table.tensors) catalog.tensors.push_back({&tensor});
    }
  });
  return insert_left_over(left_over, catalog);
}

void add_metadata(Catalog& catalog, const std::pmr::vector<MetadataPair>& of_index,
                  const std::pmr::deque<Shard>& shards, std::uint64_t seed) {
  auto& all = catalog.metadata;
  auto& index = catalog.metadata_index;
  const std::span<const MetadataPair> of_shard = shards.front().table.metadata;
  const std::size_t most = of_index.size() + of_shard.size();
  if (most >= UINT32_MAX) fail(Status::overflow, "a checkpoint of {} metadata pairs", most);
  all.reserve(most);
  index.reset(most, seed);
  const auto number_of_last = [&all] { return static_cast<std::uint32_t>(all.size() - 1); };
  for (const auto& [key, value] : of_index) {
    all.push_back({copy_text(catalog.arena, key), copy_text(catalog.arena, value)});
    index.insert(all.data(), number_of_last());
  }
  for (const MetadataPair& pair : of_shard) {
    all.push_back(pair);
    if (index.insert(all.data(), number_of_last()) != index.kNone) all.pop_back();
  }
  catalog.has_metadata = !all.empty();
}

}  // namespace st::core
