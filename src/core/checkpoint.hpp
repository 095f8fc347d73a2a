// A checkpoint: one file, or all shards of one model. Immutable once open, reference-counted.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <memory_resource>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/memory.hpp"
#include "core/shard.hpp"
#include "io/directory.hpp"

namespace st::core {

// Limits the memory for opening a model. Four times the limit of one header, enough for 3,000,000 entries of 130 bytes.
// A model with 161 shards and 92,000 tensors has 12 MB of headers.
inline constexpr std::uint64_t kMostHeaderBytesOfModel = 4 * format::kMaxHeaderBytes;

struct OpenOptions {
  io::Mode io = io::Mode::automatic;
  format::HeaderOptions header;
  std::uint64_t max_headers_bytes = kMostHeaderBytesOfModel;  // sum over all shards
  unsigned threads = 0;                                       // for reading headers of shards; 0: one per processor
  bool follow_links = false;                                  // even if a shard's link leads out of the directory
  Allocator allocator;
};

struct TensorRef {
  const Tensor* tensor;
  std::string_view name() const { return tensor->name(); }
};

// The tensors and the metadata of all shards, in the same lists as the table of one header.
struct ModelTable {
  std::pmr::monotonic_buffer_resource arena;  // texts of the metadata
  std::pmr::vector<TensorRef> tensors;        // shard after shard, each in data order
  NameIndex<TensorRef> index;
  std::pmr::vector<MetadataPair> metadata;  // the index file's, then those that only the first shard has
  NameIndex<MetadataPair> metadata_index;
  bool has_metadata = false;

  explicit ModelTable(std::pmr::memory_resource* memory)
      : arena(memory), tensors(memory), index(memory), metadata(memory), metadata_index(memory) {}
};

class Checkpoint;
struct ModelFiles;

struct Release {
  void operator()(const Checkpoint* checkpoint) const;
};
using CheckpointPtr = std::unique_ptr<Checkpoint, Release>;

class Checkpoint {
 public:
  // Opens a file, an index of shards, or the model in a directory.
  static CheckpointPtr open(const char* path, const OpenOptions& options);
  // Opens a part of a file: `size` bytes starting at `offset`. size 0: to the end. Does not close the descriptor.
  static CheckpointPtr open_descriptor(std::intptr_t descriptor, std::uint64_t offset, std::uint64_t size,
                                       const OpenOptions& options);
  // Takes ownership of the source, even if this throws.
  static CheckpointPtr open(std::unique_ptr<io::Source> source, const OpenOptions& options);
  // Opens the model in a directory, which may be a user's implementation.
  static CheckpointPtr open(std::unique_ptr<io::Directory> directory, const OpenOptions& options);
  // Opens the file or the index with this name. The directory is not listed.
  static CheckpointPtr open(std::unique_ptr<io::Directory> directory, std::string name, const OpenOptions& options);

  void retain() const { references_.fetch_add(1, std::memory_order_relaxed); }
  void release() const;

  std::size_t count_tensors() const;
  const Tensor* tensor_at(std::size_t i) const;       // in data order, shard after shard; nullptr if i is too large
  const Tensor* tensor(std::string_view name) const;  // nullptr if there is none

  const std::pmr::vector<MetadataPair>& metadata() const;
  bool has_metadata() const;                                 // also true for an empty map
  const MetadataPair* metadata(std::string_view key) const;  // nullptr if there is none

  Format format() const { return first().format; }

  std::span<const std::string> warnings() const { return warnings_; }  // non-fatal findings

  std::size_t count_shards() const { return shards_.size(); }
  const Shard& shard(std::size_t i) const { return shards_[i]; }
  const Shard* shard_at(std::size_t i) const { return i < shards_.size() ? &shards_[i] : nullptr; }

 private:
  explicit Checkpoint(const Allocator& allocator) : memory_(allocator), shards_(&memory_) {}
  ~Checkpoint() = default;
  static CheckpointPtr create(const Allocator& allocator);
  static CheckpointPtr open(const ModelFiles& files, const OpenOptions& options);
  const Table& first() const { return shards_.front().table; }

  // Returns look(lists): the lists of the model or, for a single file, of its only shard.
  template <class Look>
  decltype(auto) with_lists(Look look) const {
    return table_ ? look(*table_) : look(first());
  }

  mutable std::atomic<std::uint32_t> references_{1};
  AllocatorResource memory_;
  std::optional<Pool> pool_;         // memory of the shards, if there are several
  std::pmr::deque<Shard> shards_;    // their addresses are stable
  std::optional<ModelTable> table_;  // if there is an index, or more than one shard
  std::vector<std::string> warnings_;
};

}  // namespace st::core
