// SPDX-License-Identifier: Apache-2.0
#include "core/file.hpp"

#include <new>
#include <utility>

#include "io/random.hpp"

namespace st::core {

void Release::operator()(const File* file) const { file->release(); }

FilePtr File::create(const Allocator& allocator) {
  Memory memory(allocator);
  void* const place = memory.allocate(sizeof(File), alignof(File));
  return FilePtr(new (place) File(allocator));
}

void File::release() const {
  if (references_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  Memory memory(memory_.allocator());  // outlives the File that holds the other one
  this->~File();
  memory.deallocate(const_cast<File*>(this), sizeof(File), alignof(File));
}

FilePtr File::open(io::Source source, const OpenOptions& options) {
  FilePtr file = create(options.allocator);
  Shard& shard = file->shards_.emplace_back(&file->memory_);
  shard.source = std::move(source);
  format::HeaderOptions header = options.header;
  header.seed = io::random_seed();
  load(shard, options.io, header);
  return file;
}

FilePtr File::open(const char* path, const OpenOptions& options) {
  io::PlainFile plain = io::PlainFile::open(path);
  const std::uint64_t size = plain.size();
  FilePtr file = open(io::Source::file(std::move(plain), 0, size), options);
  file->shards_.front().path = path;
  return file;
}

const Tensor* File::tensor_at(std::size_t i) const {
  const auto& tensors = only().table.tensors;
  return i < tensors.size() ? &tensors[i] : nullptr;
}

const Tensor* File::tensor(std::string_view name) const {
  const Table& table = only().table;
  const std::uint32_t number = table.index.find(table.tensors.data(), name);
  return number == table.index.kNone ? nullptr : &table.tensors[number];
}

const MetadataPair* File::metadata(std::string_view key) const {
  const Table& table = only().table;
  const std::uint32_t number = table.metadata_index.find(table.metadata.data(), key);
  return number == table.metadata_index.kNone ? nullptr : &table.metadata[number];
}

}  // namespace st::core
