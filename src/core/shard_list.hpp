// Which files make up a checkpoint: what a folder or an index says before any shard is opened.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/directory.hpp"
#include "io/source.hpp"

namespace st::core {

struct ShardList {
  std::unique_ptr<io::Directory> folder;
  std::string index;  // file name of the index in the folder; empty when there is none
  // The model's, ascending by number. With an index a guess at what it is going to say, ascending by bytes.
  std::vector<std::string> files;

  bool is_one_file() const { return index.empty() && files.size() == 1; }
  // Opens the only file, as if the caller had named it: a link may leave the directory.
  std::unique_ptr<io::Source> open_file() const { return folder->open(files.front(), /*follow_links=*/true); }
};

bool is_index_name(std::string_view path);

// The parts of an index's path, and what its folder shows.
ShardList shards_of_index(std::string_view path);

// Chooses what a folder stands for (docs/format.md 2.4). Throws an error that names the candidates if there is not
// exactly one.
ShardList shards_of_folder(std::unique_ptr<io::Directory> folder);

// Two shards that are one file, as links make them.
struct SameFile {
  std::size_t first;
  std::size_t second;
};

// Returns the pair with the lowest second shard. An identity is nullopt if the shard is not a file.
std::optional<SameFile> find_same_file(std::span<const std::optional<io::Identity>> shards);

}  // namespace st::core
