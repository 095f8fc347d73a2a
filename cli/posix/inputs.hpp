// What a command must not write to: the files that it reads, and a person's terminal.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <sys/stat.h>

#include <safetensors/safetensors.hpp>

namespace cli {

// Files are the same where device and inode are: links of either kind give one file many names.
class Inputs {
 public:
  // The path that was opened, and the shards that it led to.
  Inputs(const std::string& path, const safetensors::SafeOpen& file);
  explicit Inputs(const std::vector<std::string>& paths);

  bool contain(const struct stat& status) const;

 private:
  void add(const std::string& path);

  std::vector<std::pair<dev_t, ino_t>> files_;
};

// Returns the N of /dev/fd/N and its other names, or -1. Such a path stands for the open descriptor: to open the path
// would give another file position, at the beginning of a redirected file.
int descriptor_of(const std::string& path);

// Throws a Failure.
void refuse_terminal(int descriptor);

// For what the library writes from A to B. B may be A if A is one file, because the library replaces a file whole. B may
// not be a stream to the file that is read, nor one of several files of a model.
void check_output(const std::string& into, const Inputs& inputs, bool is_model);

}  // namespace cli
