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

#include "core/allocator.hpp"
#include "core/catalog.hpp"
#include "core/shard.hpp"
#include "io/directory.hpp"

namespace st::core {

// Four times the limit of one header, enough for 3,000,000 tensors of 130 bytes: a model of 161 shards and 92,000 tensors
// has 12 MB. So a model in shards may hold more tensors than a file, and opening it takes a bounded amount of memory.
inline constexpr std::uint64_t kMostHeaderBytesOfModel = 4 * format::kMaxHeaderBytes;

struct OpenOptions {
  io::Mode io = io::Mode::automatic;
  format::HeaderOptions header;
  std::uint64_t max_headers_bytes = kMostHeaderBytesOfModel;  // of all shards in sum
  unsigned threads = 0;       // for the headers of many shards; 0: as many as the machine runs
  bool follow_links = false;  // also where a shard's link leaves the folder of its index
  Allocator allocator;
};

struct ShardList;

class Checkpoint;

struct Release {
  void operator()(const Checkpoint* file) const;
};
using CheckpointPtr = std::unique_ptr<Checkpoint, Release>;

class Checkpoint {
 public:
  static CheckpointPtr open(const char* path, const OpenOptions& options);
  // Part of a file, `size` bytes or, if that is 0, all from `offset` on. The descriptor stays the caller's.
  static CheckpointPtr open_descriptor(std::intptr_t descriptor, std::uint64_t offset, std::uint64_t size,
                                       const OpenOptions& options);
  // The source is consumed, also when this throws.
  static CheckpointPtr open(std::unique_ptr<io::Source> source, const OpenOptions& options);
  // The model that a folder of any kind holds.
  static CheckpointPtr open(std::unique_ptr<io::Directory> folder, const OpenOptions& options);

  void retain() const { references_.fetch_add(1, std::memory_order_relaxed); }
  void release() const;

  std::size_t count_tensors() const;
  const Tensor* tensor_at(std::size_t i) const;       // in data order, shard after shard; nullptr when there is none
  const Tensor* tensor(std::string_view name) const;  // nullptr when absent

  const std::pmr::vector<MetadataPair>& metadata() const;
  bool has_metadata() const;                                 // also for an empty map, which is not the same as none
  const MetadataPair* metadata(std::string_view key) const;  // nullptr when absent

  Format format() const { return first().format; }

  std::span<const std::string> warnings() const;  // what is odd and no error

  std::size_t count_shards() const { return shards_.size(); }
  const Shard& shard(std::size_t i) const { return shards_[i]; }
  const Shard* shard_at(std::size_t i) const { return i < shards_.size() ? &shards_[i] : nullptr; }

 private:
  explicit Checkpoint(const Allocator& allocator) : memory_(allocator), shards_(&memory_) {}
  ~Checkpoint() = default;
  static CheckpointPtr create(const Allocator& allocator);
  static CheckpointPtr open_checkpoint(const ShardList& list, const OpenOptions& options);
  void load_shards(const ShardList& list, const OpenOptions& options);
  const Table& first() const { return shards_.front().table; }

  // look(lists), with the lists of the catalog, or else of the only shard.
  template <class Look>
  decltype(auto) with_lists(Look look) const {
    return catalog_ ? look(*catalog_) : look(first());
  }

  mutable std::atomic<std::uint32_t> references_{1};
  AllocatorResource memory_;
  std::optional<Pool> pool_;        // of the shards, when there are several
  std::pmr::deque<Shard> shards_;   // they stay where they are
  std::optional<Catalog> catalog_;  // when there is an index, or more than one shard
};

}  // namespace st::core
