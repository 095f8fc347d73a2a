// A folder: what is in it, and its files, opened without leaving it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "io/posix/descriptor.hpp"
#include "io/posix/plain_file.hpp"

namespace st::io {

class Folder {
 public:
  static Folder open(const std::string& path);

  // Names without "." and "..", ascending by bytes.
  std::vector<std::string> names() const;

  // A regular file below this folder. A link may lead elsewhere inside the folder, or, in a model hub's cache, from
  // snapshots/REVISION to blobs/; anywhere else only with follow_links. Any thread.
  PlainFile file(const std::string& name, bool follow_links) const;

 private:
  Folder() = default;
  bool contains(const PlainFile& file) const;

  Descriptor descriptor_;
  std::string path_;
};

}  // namespace st::io
