// Opening one file, or what a folder or an index leads to.
// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "core/checkpoint.hpp"
#include "core/file.hpp"
#include "io/file_source.hpp"
#include "io/random.hpp"

namespace st::core {

FilePtr File::open(std::unique_ptr<io::Source> source, const OpenOptions& options) {
  FilePtr file = create(options.allocator);
  Shard& shard = file->shards_.emplace_back(&file->memory_);
  shard.source = std::move(source);
  shard.path = shard.source->name();
  format::ReadOptions header = options.header;
  header.seed = io::hash_seed(file.get());
  load(shard, options.io, header);
  return file;
}

FilePtr File::open(const char* path, const OpenOptions& options) {
  if (is_index_name(path)) return open_checkpoint(checkpoint_of_index(path), options);
  std::unique_ptr<io::Source> source = io::file_source_unless_folder(path);
  return source != nullptr ? open(std::move(source), options) : open(io::open_folder(path), options);
}

FilePtr File::open(std::unique_ptr<io::Folder> folder, const OpenOptions& options) {
  return open_checkpoint(checkpoint_of_folder(std::move(folder)), options);
}

FilePtr File::open_descriptor(std::intptr_t descriptor, std::uint64_t offset, std::uint64_t size,
                              const OpenOptions& options) {
  return open(io::file_source_of_descriptor(descriptor, offset, size), options);
}

FilePtr File::open_checkpoint(const Checkpoint& checkpoint, const OpenOptions& options) {
  if (checkpoint.index.empty() && checkpoint.files.size() == 1) {
    return open(checkpoint.folder->open(checkpoint.files.front(), /*follow_links=*/true), options);
  }
  FilePtr file = create(options.allocator);
  file->load_shards(checkpoint, options);
  return file;
}

}  // namespace st::core
