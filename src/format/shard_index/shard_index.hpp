// Parses the index of a sharded model, which maps each tensor to its file (docs/format.md 2).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <span>
#include <string_view>
#include <vector>

#include "format/header_options.hpp"
#include "format/table.hpp"

namespace st::format::shard_index {

struct Entry {
  std::string_view tensor;
  std::uint32_t shard;  // of Index::shards
};

// Holds views into the parsed text and into `arena`.
struct Index {
  std::pmr::monotonic_buffer_resource arena;
  std::pmr::vector<std::string_view> shards;  // file names, each path once, in byte order; at least one
  std::pmr::vector<Entry> entries;            // in the order of the text; may list a tensor twice
  std::pmr::vector<MetadataPair> metadata;    // strings decoded, other values as JSON text; NUL-terminated; keys once

  explicit Index(std::pmr::memory_resource* memory)
      : arena(memory), shards(memory), entries(memory), metadata(memory) {}
};

// Parses an index as strictly as a header. `text` is followed by kPadding zero bytes. Only `rules`, `seed` and
// `window_bytes` of the options are used.
void read(std::span<char> text, const HeaderOptions& options, Index& index);

// Throws Status::shard if the name of a shard is empty or may lead out of the index's directory: an absolute path, a
// drive letter, a backslash, a NUL, or a "..". Does not access the filesystem.
void require_safe_name(std::string_view name);

}  // namespace st::format::shard_index
