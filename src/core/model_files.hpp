// Finds the files of a model by their names, before any shard is opened.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "io/directory.hpp"

namespace st::core {

struct ModelFiles {
  std::unique_ptr<io::Directory> directory;
  std::string index;  // file name of the index in the directory; empty if there is none
  // Without an index: the model's files, ascending by number. With an index: the files that it probably names, in byte
  // order.
  std::vector<std::string> files;

  bool is_one_file() const { return index.empty() && files.size() == 1; }
  // Opens the only file as if the caller had named it, so its link may lead out of the directory.
  std::unique_ptr<io::Source> open_file() const { return directory->open(files.front(), /*follow_links=*/true); }
};

// Opens the file at this path. Returns nullptr if the path is a directory or the name of an index.
std::unique_ptr<io::Source> open_file_unless_model(const char* path);

// Returns the files of the model at this path, a directory or an index. See files_of_directory().
ModelFiles files_of_model(const char* path);

// Chooses the model of a directory (docs/format.md 2.4). Throws if there is no model or more than one; the error names
// two candidates.
ModelFiles files_of_directory(std::unique_ptr<io::Directory> directory);

// Returns the files of a model in a directory that cannot be listed: the index with this name, or one file.
ModelFiles files_by_name(std::unique_ptr<io::Directory> directory, std::string name);

}  // namespace st::core
