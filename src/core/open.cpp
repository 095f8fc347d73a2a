// Opening one file, or what a folder or an index leads to.
// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "core/checkpoint.hpp"
#include "core/shard_list.hpp"
#include "io/os.hpp"
#include "io/source.hpp"

namespace st::core {

CheckpointPtr Checkpoint::open(std::unique_ptr<io::Source> source, const OpenOptions& options) {
  CheckpointPtr file = create(options.allocator);
  Shard& shard = file->shards_.emplace_back(&file->memory_);
  shard.checkpoint = file.get();
  shard.source = std::move(source);
  shard.path = shard.source->name();
  format::HeaderOptions header = options.header;
  header.seed = io::hash_seed(file.get());
  load(shard, options.io, header);
  return file;
}

CheckpointPtr Checkpoint::open(const char* path, const OpenOptions& options) {
  if (is_index_name(path)) return open_checkpoint(shards_of_index(path), options);
  std::unique_ptr<io::Source> source = io::file_source_unless_directory(path);
  return source != nullptr ? open(std::move(source), options) : open(io::open_directory(path), options);
}

CheckpointPtr Checkpoint::open(std::unique_ptr<io::Directory> folder, const OpenOptions& options) {
  return open_checkpoint(shards_of_folder(std::move(folder)), options);
}

CheckpointPtr Checkpoint::open_descriptor(std::intptr_t descriptor, std::uint64_t offset, std::uint64_t size,
                                          const OpenOptions& options) {
  return open(io::file_source_of_descriptor(descriptor, offset, size), options);
}

CheckpointPtr Checkpoint::open_checkpoint(const ShardList& list, const OpenOptions& options) {
  if (list.is_one_file()) return open(list.open_file(), options);
  CheckpointPtr file = create(options.allocator);
  file->load_shards(list, options);
  return file;
}

}  // namespace st::core
