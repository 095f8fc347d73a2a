// One open file of a checkpoint: its bytes, and the table of its header.
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
  const char* path = "";   // the source's name, as given by the caller or the index; empty for memory and descriptors
  std::size_t number = 0;  // index among the checkpoint's shards
  const Checkpoint* checkpoint = nullptr;  // back pointer
  std::unique_ptr<io::Source> source;
  PaddedBuffer header;                             // holds the names
  std::uint64_t header_begin = 0;                  // in the file
  mutable std::atomic<char*> raw_header{nullptr};  // copy of the header as in the file, made on first use
  Table table;

  explicit Shard(std::pmr::memory_resource* resource) : memory(resource), table(resource) {}
  Shard(Shard&&) = delete;  // its tensors point to it
  ~Shard();

  // Returns the tensor's position in the file.
  std::uint64_t offset_of(const Tensor& tensor) const { return table.data_begin + tensor.begin; }
};

inline const Shard& shard_of(const Tensor& tensor) { return *static_cast<const Shard*>(tensor.owner); }

// Sums the lengths of the headers of a model. Any thread may add to it.
struct HeaderSum {
  std::uint64_t limit;
  std::atomic<std::uint64_t> bytes{0};

  bool exceeded() const { return bytes > limit; }
};

// Opens a shard whose source is set: reads and validates the header, and prepares the source for views. Throws the
// first error. Before allocating memory for the header, adds its length to `sum`, and throws if the sum exceeds its
// limit.
void open_shard(Shard& shard, io::Mode mode, format::HeaderOptions options, HeaderSum* sum = nullptr);

// The first step of open_shard(): reads shard.header. Never returns a half-finished edit.
void read_header_text(Shard& shard, const format::HeaderOptions& options, HeaderSum* sum = nullptr);

// Adds an index of its names to a shard opened without one. Throws if a name occurs twice.
void index_names(Shard& shard, format::HeaderOptions options);

// ---- any thread may call these --------------------------------------------------------------------------------------

// Returns an empty string if the file was not overwritten since it was opened. Otherwise returns a sentence for messages.
std::string change_of(const Shard& shard);

// Returns the header as in the file, or nullptr if out of memory.
const char* raw_header(const Shard& shard);

// Reads any part of the file. Throws Status::range if it is not inside the file.
void read_range(const Shard& shard, std::uint64_t offset, void* dst, std::size_t n);

// Reads a tensor. Throws like check_destination().
void read(const Tensor& tensor, void* dst, std::uint64_t dst_bytes);
void read(const Tensor& tensor, void* dst);

// Throws unless the destination has exactly the size of the read.
void check_destination(const Tensor& tensor, std::uint64_t bytes, const void* dst, std::uint64_t dst_bytes);

// Returns the tensor's bytes, or nullptr if they must be read. See Source::view().
const std::byte* view(const Tensor& tensor);

void advise(const Tensor& tensor, io::Advice advice);

}  // namespace st::core
