// Which files make up a checkpoint: what a folder or an index says before any shard is opened.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace st::core {

struct Checkpoint {
  std::string folder;
  std::string index;               // file name of the index in the folder; empty when there is none
  std::vector<std::string> files;  // without an index: the model's files
};

bool is_index_name(std::string_view path);

// The parts of an index's path.
Checkpoint checkpoint_of_index(std::string_view path);

// An index, or else one model, or else the numbered shards of one: whatever the folder holds, and an error that says
// what is there when that is nothing or not clear.
Checkpoint checkpoint_of_folder(const std::string& path);

// The numbered shards in the folder that the model of this index would have, ascending by bytes: a guess at what the
// index is going to say.
std::vector<std::string> likely_shards(const std::vector<std::string>& names, std::string_view index);

}  // namespace st::core
