// What the index of a checkpoint says of each shard, held against what the shard holds.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <span>
#include <string>
#include <vector>

#include "core/catalog.hpp"
#include "core/shard.hpp"
#include "format/shard_index/shard_index.hpp"

namespace st::core {

// Neighbours in the index's text that name the same shard: entries first to end - 1.
struct EntryRun {
  std::uint32_t first;
  std::uint32_t end;
};

// The entries of an index, shard after shard. An index mostly names the tensors of a layer together, so that there are
// few runs.
class ShardClaims {
 public:
  // The index must stay.
  ShardClaims(const format::shard_index::Index& index, std::pmr::memory_resource* memory);

  const format::shard_index::Index& index() const { return index_; }
  std::span<const EntryRun> of_shard(std::size_t number) const {
    return std::span(runs_).subspan(first_[number], first_[number + 1] - first_[number]);
  }

 private:
  const format::shard_index::Index& index_;
  std::pmr::vector<EntryRun> runs_;
  std::pmr::vector<std::size_t> first_;  // of each shard's runs, and one more
};

// Throws unless every tensor that the index puts into this shard is there, and named once. Returns a warning where the
// shard holds more, else an empty text; by strict rules that is a fault, too.
std::string check_claims(const Shard& shard, const ShardClaims& claims, const Catalog& catalog, bool strict);

}  // namespace st::core
