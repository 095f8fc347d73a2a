// Opening one file, or what a folder or an index leads to.
// SPDX-License-Identifier: Apache-2.0
#include <optional>
#include <utility>

#include "base/error.hpp"
#include "core/checkpoint.hpp"
#include "core/file.hpp"
#include "io/random.hpp"

namespace st::core {

FilePtr File::open(io::Source source, const OpenOptions& options) {
  FilePtr file = create(options.allocator);
  Shard& shard = file->shards_.emplace_back(&file->memory_);
  shard.source = std::move(source);
  format::ReadOptions header = options.header;
  header.seed = io::hash_seed(file.get());
  load(shard, options.io, header);
  return file;
}

FilePtr File::open(const char* path, const OpenOptions& options) {
  if (is_index_name(path)) return open_checkpoint(checkpoint_of_index(path), options);
  std::optional<io::PlainFile> plain = io::PlainFile::open_unless_folder(path);
  if (!plain) return open_checkpoint(checkpoint_of_folder(path), options);
  const std::uint64_t size = plain->size();
  FilePtr file = open(io::Source::file(std::move(*plain), 0, size), options);
  file->shards_.front().path = path;
  return file;
}

FilePtr File::open_descriptor(std::intptr_t descriptor, std::uint64_t offset, std::uint64_t size,
                              const OpenOptions& options) {
  io::PlainFile plain = io::PlainFile::duplicate(descriptor);
  const std::uint64_t whole = plain.size();
  if (offset > whole || size > whole - offset) {
    fail(Status::range, "{} bytes from {} do not lie inside the file of {} bytes", size, offset, whole);
  }
  const std::uint64_t length = size != 0 ? size : whole - offset;
  return open(io::Source::file(std::move(plain), offset, length), options);
}

FilePtr File::open_checkpoint(const Checkpoint& checkpoint, const OpenOptions& options) {
  if (checkpoint.index.empty() && checkpoint.files.size() == 1) {
    const std::string path = checkpoint.folder + "/" + checkpoint.files.front();
    return open(path.c_str(), options);
  }
  FilePtr file = create(options.allocator);
  file->load_shards(checkpoint, options);
  return file;
}

}  // namespace st::core
