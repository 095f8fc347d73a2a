// A checkpoint: one file, or all shards of one model. Immutable once open, shared by reference count.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <memory_resource>
#include <string_view>

#include "core/shard.hpp"

namespace st::core {

// The caller's allocator (or malloc) as the standard's memory resource. Throws std::bad_alloc.
struct Allocator {
  void* ctx = nullptr;
  void* (*alloc)(void* ctx, std::size_t size, std::size_t align) = nullptr;
  void (*free)(void* ctx, void* ptr, std::size_t size, std::size_t align) = nullptr;
};

struct OpenOptions {
  io::Mode io = io::Mode::automatic;
  format::HeaderOptions header;
  unsigned threads = 0;
  Allocator allocator;
};

class File {
 public:
  // A path: a file; an index or a folder come with checkpoints.
  static File* open(const char* path, const OpenOptions& options);
  // A Source that is already open: memory, callbacks, a descriptor. The source is consumed, also when this throws.
  static File* open(io::Source source, const OpenOptions& options);

  void retain() const;
  void release() const;

  std::size_t count_tensors() const;
  const Tensor* tensor_at(std::size_t i) const;          // nullptr when there is none
  const Tensor* tensor(std::string_view name) const;     // nullptr when absent
  std::size_t count_shards() const;
  const Shard& shard(std::size_t i) const;
  // The header of a shard as the file spells it, made on first call; nullptr only when memory runs out.
  const char* raw_header(std::size_t shard) const;
};

// Copies the whole tensor.
void read(const Tensor& tensor, void* dst);

}  // namespace st::core
