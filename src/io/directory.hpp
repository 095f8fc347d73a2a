// A directory: lists its names, and opens files without leaving it. To read shards from somewhere other than a disk,
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

  // The path for messages.
  virtual const std::string& path() const = 0;

  // Returns the names except "." and "..", in byte order.
  virtual std::vector<std::string> names() const = 0;

  // Opens a file below this directory. Any thread may call this. On a disk, a link may lead to another place inside the
  // directory or, in a model hub's cache, from snapshots/REVISION to blobs/. Other links are followed only with
  // follow_links.
  virtual std::unique_ptr<Source> open(const std::string& name, bool follow_links) const = 0;

  // How many files should be opened at the same time. 0: as many as there are processors.
  virtual unsigned parallel() const { return 0; }

  // Whether a name in this directory may now belong to a different file than when the directory was opened.
  virtual bool changed_lately() const { return false; }

  // Whether this name still leads to the file from which open() made this source.
  virtual bool leads_to(const std::string& /*name*/, const Source& /*source*/) const { return true; }

 protected:
  Directory() = default;
};

std::unique_ptr<Directory> open_directory(const std::string& path);

// A file's path, split into its directory ("." if there is none) and its name.
struct SplitPath {
  std::string directory;
  std::string name;
};

SplitPath split_path(std::string_view path);

}  // namespace st::io
