// A checkpoint: one file, or all shards of one model. Immutable once open, shared by reference count.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "core/catalog.hpp"
#include "core/memory.hpp"
#include "core/shard.hpp"
#include "io/folder.hpp"

namespace st::core {

struct OpenOptions {
  io::Mode io = io::Mode::automatic;
  format::ReadOptions header;
  unsigned threads = 0;       // for the headers of many shards; 0: as many as the machine runs
  bool follow_links = false;  // also where a shard's link leaves the folder of its index
  Allocator allocator;
};

struct Checkpoint;

class File;

struct Release {
  void operator()(const File* file) const;
};
using FilePtr = std::unique_ptr<File, Release>;

class File {
 public:
  static FilePtr open(const char* path, const OpenOptions& options);
  // Part of a file, `size` bytes or, if that is 0, all from `offset` on. The descriptor stays the caller's.
  static FilePtr open_descriptor(std::intptr_t descriptor, std::uint64_t offset, std::uint64_t size,
                                 const OpenOptions& options);
  // The source is consumed, also when this throws.
  static FilePtr open(std::unique_ptr<io::Source> source, const OpenOptions& options);
  // The model that a folder of any kind holds.
  static FilePtr open(std::unique_ptr<io::Folder> folder, const OpenOptions& options);

  void retain() const { references_.fetch_add(1, std::memory_order_relaxed); }
  void release() const;

  std::size_t count_tensors() const { return catalog_ ? catalog_->tensors.size() : first().tensors.size(); }
  const Tensor* tensor_at(std::size_t i) const;       // in data order, shard after shard; nullptr when there is none
  const Tensor* tensor(std::string_view name) const;  // nullptr when absent

  const std::pmr::vector<MetadataPair>& metadata() const { return catalog_ ? catalog_->metadata : first().metadata; }
  // Also for an empty map, which is not the same as none.
  bool has_metadata() const { return catalog_ ? !catalog_->metadata.empty() : first().has_metadata; }
  const MetadataPair* metadata(std::string_view key) const;  // nullptr when absent

  Format format() const { return shards_.empty() ? Format::safetensors : first().format; }

  std::span<const std::string> warnings() const;  // what is odd and no error

  std::size_t count_shards() const { return shards_.size(); }
  const Shard& shard(std::size_t i) const { return shards_[i]; }
  const Shard* shard_at(std::size_t i) const { return i < shards_.size() ? &shards_[i] : nullptr; }

 private:
  explicit File(const Allocator& allocator) : memory_(allocator), shards_(&memory_) {}
  ~File() = default;
  static FilePtr create(const Allocator& allocator);
  static FilePtr open_checkpoint(const Checkpoint& checkpoint, const OpenOptions& options);
  void load_shards(const Checkpoint& checkpoint, const OpenOptions& options);
  const Table& first() const { return shards_.front().table; }

  mutable std::atomic<std::uint32_t> references_{1};
  Memory memory_;
  std::optional<Pool> pool_;        // of the shards, when there are several
  std::pmr::deque<Shard> shards_;   // they stay where they are
  std::optional<Catalog> catalog_;  // when there is an index, or more than one shard
};

}  // namespace st::core
