// One file of a checkpoint: its bytes, its header, and what the header says.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <string>

#include "core/memory.hpp"
#include "format/header.hpp"
#include "format/table.hpp"
#include "io/source.hpp"

namespace st::core {

using format::Format;
using format::MetadataPair;
using format::NameIndex;
using format::Table;
using format::Tensor;

class Checkpoint;

struct Shard {
  std::pmr::memory_resource* memory;
  const char* path = "";   // the source's name, as the caller or the index spells it; empty for memory and descriptors
  std::size_t number = 0;  // its place among the shards
  const Checkpoint* checkpoint = nullptr;  // which it is a shard of, for who holds only a tensor
  std::unique_ptr<io::Source> source;
  PaddedBuffer header;                             // names live here
  std::uint64_t header_begin = 0;                  // in the file
  mutable std::atomic<char*> raw_header{nullptr};  // as the file spells it, made when first asked for
  Table table;

  explicit Shard(std::pmr::memory_resource* resource) : memory(resource), table(resource) {}
  Shard(Shard&&) = delete;  // its tensors point here
  ~Shard();

  // Absolute, in the shard's file.
  std::uint64_t offset_of(const Tensor& tensor) const { return table.data_begin + tensor.begin; }
};

inline const Shard& shard_of(const Tensor& tensor) { return *static_cast<const Shard*>(tensor.owner); }

// The sum of the headers of a model. Counts from any thread.
struct HeaderSum {
  std::uint64_t limit;
  std::atomic<std::uint64_t> bytes{0};

  bool exceeded() const { return bytes > limit; }
};

// Reads and checks the header of shard.source, then prepares the source for views. Throws at the first fault.
// Adds the length of the header to `sum` before it takes memory for it, and throws if that exceeds the limit.
void load(Shard& shard, io::Mode mode, format::HeaderOptions options, HeaderSum* sum = nullptr);

// The first step of load(): reads shard.header, and never half of an edit.
void read_header_text(Shard& shard, const format::HeaderOptions& options, HeaderSum* sum = nullptr);

// For a shard that was loaded without an index of its names: makes one, and throws where a name is given twice.
void index_names(Shard& shard, format::HeaderOptions options);

// nullptr only when memory runs out. Any thread.
const char* raw_header(const Shard& shard);

// These from any thread.

// Part of the file, data or not. Throws Status::range for what does not lie inside.
void read_range(const Shard& shard, std::uint64_t offset, void* dst, std::size_t n);

// All bytes of a tensor. Throws as check_destination() does.
void read(const Tensor& tensor, void* dst, std::uint64_t dst_bytes);
void read(const Tensor& tensor, void* dst);

// The destination of a read has as many bytes as are read.
void check_destination(const Tensor& tensor, std::uint64_t bytes, const void* dst, std::uint64_t dst_bytes);

// A tensor's bytes, or nullptr when they must be read: see Source::view().
const std::byte* view(const Tensor& tensor);

void advise(const Tensor& tensor, io::Advice advice);

}  // namespace st::core
