// A folder: what is in it, and its files, opened without leaving it. Whoever keeps a model's shards elsewhere than on a
// disk implements this interface and Source.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "io/source.hpp"

namespace st::io {

class Folder {
 public:
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  virtual ~Folder() = default;

  // As errors name it.
  virtual const std::string& path() const = 0;

  // Names without "." and "..", ascending by bytes.
  virtual std::vector<std::string> names() const = 0;

  // A file below this folder, from any thread. On a disk a link may lead elsewhere inside the folder, or, in a model
  // hub's cache, from snapshots/REVISION to blobs/; anywhere else only with follow_links.
  virtual std::unique_ptr<Source> open(const std::string& name, bool follow_links) const = 0;

 protected:
  Folder() = default;
};

std::unique_ptr<Folder> open_folder(const std::string& path);

// A file's path as that of its folder, "." where the path names none, and its name there.
struct SplitPath {
  std::string folder;
  std::string name;
};

SplitPath split_path(std::string_view path);

}  // namespace st::io
