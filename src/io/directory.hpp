// A directory: its names, and its files, opened without leaving it. To keep a model's shards elsewhere than on a disk,
// implement this interface and Source.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "io/source.hpp"

namespace st::io {

class Directory {
 public:
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;
  virtual ~Directory() = default;

  // The name in errors.
  virtual const std::string& path() const = 0;

  // Returns the names except "." and "..", in byte order.
  virtual std::vector<std::string> names() const = 0;

  // Opens a file below this directory, from any thread. On a disk a link may lead elsewhere inside the directory, or,
  // in the cache of a model hub, from snapshots/REVISION to blobs/. It leads anywhere else only with follow_links.
  virtual std::unique_ptr<Source> open(const std::string& name, bool follow_links) const = 0;

 protected:
  Directory() = default;
};

std::unique_ptr<Directory> open_directory(const std::string& path);

// The directory of a file's path ("." if the path has none), and its name there.
struct SplitPath {
  std::string directory;
  std::string name;
};

SplitPath split_path(std::string_view path);

}  // namespace st::io
