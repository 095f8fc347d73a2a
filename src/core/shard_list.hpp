// Which files make up a checkpoint: what a folder or an index says before any shard is opened.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "io/folder.hpp"

namespace st::core {

struct ShardList {
  std::unique_ptr<io::Folder> folder;
  std::string index;               // file name of the index in the folder; empty when there is none
  std::vector<std::string> files;  // ascending; the model's, or with an index a guess at what it is going to say
};

bool is_index_name(std::string_view path);

// The parts of an index's path, and what its folder shows.
ShardList shards_of_index(std::string_view path);

// An index, or else one model, or else the numbered shards of one: whatever the folder holds, and an error that says
// what is there when that is nothing or not clear.
ShardList shards_of_folder(std::unique_ptr<io::Folder> folder);

}  // namespace st::core
