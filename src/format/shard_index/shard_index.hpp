// The index of a checkpoint of many files: which tensor is in which (docs/format.md 2).
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

// Views into the text that was read, and into `arena`.
struct Index {
  std::pmr::monotonic_buffer_resource arena;
  std::pmr::vector<std::string_view> shards;  // file names, each path once, ascending by bytes; at least one
  std::pmr::vector<Entry> entries;            // in the order of the text; a tensor may still stand twice
  std::pmr::vector<MetadataPair> metadata;    // strings decoded, other values as JSON text; NUL-terminated; keys once

  explicit Index(std::pmr::memory_resource* memory)
      : arena(memory), shards(memory), entries(memory), metadata(memory) {}
};

// `text` is followed by kPadding zero bytes. Held to the strictness of a header. Only `rules`, `seed` and `window_bytes` of
// the options are used.
void read(std::span<char> text, const HeaderOptions& options, Index& index);

// Throws Status::shard unless `name` stays inside the folder of the index as far as its spelling tells: it is not
// absolute, has no drive letter, no backslash, no NUL, and no part "..".
void require_safe_name(std::string_view name);

}  // namespace st::format::shard_index
