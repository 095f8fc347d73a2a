// What the index of a checkpoint says of each shard, held against what the shard holds.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/catalog.hpp"
#include "core/shard.hpp"
#include "format/finding.hpp"
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

// Returns which tensors of the shard the index lists. Reports each tensor that the index lists for this shard although it
// is not there, and each that it lists more than once.
std::vector<bool> listed_tensors(const Shard& shard, const ShardClaims& claims, const Catalog& catalog,
                                 format::FaultSink& faults);

// Describes the tensors that the index does not list. Empty if there are none.
std::string describe_unlisted(const Shard& shard, const std::vector<bool>& listed);

// ---- errors of a model, as opening and checking report them

// An error of the shard with this name. `path` is empty if the shard could not be opened, `index` if there is none.
Error error_of_shard(Error error, std::string_view name, std::string_view path, std::string_view index);

Error error_of_one_file(std::string_view path, std::string_view same);

Error error_of_name_in_two_shards(std::string_view tensor, std::string_view path, std::string_view later_path);

// `model` is the name of the index, or else the directory. `shards` counts those whose headers are in the sum.
Error error_of_header_sum(std::string_view model, std::size_t shards, const HeaderSum& sum);

// Shards are opened in batches, each as long as all before it, and at least 256. Opening stops after a batch with an error.
// Returns the end of the batch that begins with this shard.
std::size_t end_of_batch(std::size_t first, std::size_t shards);

}  // namespace st::core
