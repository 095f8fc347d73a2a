// Opens all shards of a model.
//
// Checking a model (check.hpp) uses the same code to find the listed tensors and to report errors, so its first error
// is the one that opening reports.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "core/checkpoint.hpp"
#include "core/memory.hpp"
#include "core/model_files.hpp"
#include "format/finding.hpp"
#include "format/shard_index/shard_index.hpp"
#include "io/source.hpp"

namespace st::core {

// Reads the index and all headers on several threads, so later lookups read nothing. Returns warnings.
std::vector<std::string> open_shards(const ModelFiles& files, const OpenOptions& options,
                                     std::pmr::memory_resource& memory, std::optional<Pool>& pool,
                                     std::pmr::deque<Shard>& shards, ModelTable& table);

// ---- comparing shards with the index --------------------------------------------------------------------------------

// Reads the text of the index. Throws if it is longer than the limit of a header.
PaddedBuffer read_index_text(const io::Source& file, const format::HeaderOptions& options,
                             std::pmr::memory_resource& memory);

// Consecutive entries of an index that name the same shard: entries first to end - 1.
struct EntryRun {
  std::uint32_t first;
  std::uint32_t end;
};

// The entries of an index, grouped by shard. An index usually lists the tensors of a layer together, so there are few
// runs.
class ShardClaims {
 public:
  // Keeps a reference to the index.
  ShardClaims(const format::shard_index::Index& index, std::pmr::memory_resource* memory);

  const format::shard_index::Index& index() const { return index_; }
  std::span<const EntryRun> of_shard(std::size_t number) const {
    return std::span(runs_).subspan(first_[number], first_[number + 1] - first_[number]);
  }

 private:
  const format::shard_index::Index& index_;
  std::pmr::vector<EntryRun> runs_;
  std::pmr::vector<std::size_t> first_;  // first run of each shard, then the number of runs
};

// Returns which tensors of the shard are listed in the index. Reports each tensor that the index lists for this shard
// but that is missing, and each that it lists more than once. Uses `table` if the shard has no index of its names.
std::vector<bool> listed_tensors(const Shard& shard, const ShardClaims& claims, const ModelTable& table,
                                 format::FaultSink& faults);

// Describes the tensors that the index does not list. Empty if there are none.
std::string describe_unlisted(const Shard& shard, const std::vector<bool>& listed);

// ---- errors of a model ----------------------------------------------------------------------------------------------

// Returns the end of the batch of shards that begins with `first`. Each batch is as long as all earlier ones together,
// and at least 256 shards. Opening stops after a batch with an error.
std::size_t end_of_batch(std::size_t first, std::size_t shards);

// `model` is the name of the index, or else of the directory. `shards` is the number of shards in the sum.
Error error_of_header_sum(std::string_view model, std::size_t shards, const HeaderSum& sum);

// Adds the names of the shard and the index to an error. `path` is empty if the shard could not be opened, `index` if
// there is no index.
Error error_of_shard(Error error, std::string_view name, std::string_view path, std::string_view index);

// Two shards that are links to the same file.
struct SameFile {
  std::size_t first;
  std::size_t second;
};

// Returns the pair with the lowest second shard. An identity is nullopt if the shard is not a file or has no tensors.
// Shards without tensors may be the same file, because a model hub's cache stores equal files only once.
std::optional<SameFile> find_same_file(std::span<const std::optional<io::Identity>> shards);

Error error_of_one_file(std::string_view path, std::string_view other_path);

Error error_of_name_in_two_shards(std::string_view tensor, std::string_view path, std::string_view other_path);

}  // namespace st::core
