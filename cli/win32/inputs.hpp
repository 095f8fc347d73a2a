// What a command must not write to: the files that it reads, and a person's terminal.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <safetensors/safetensors.hpp>

namespace cli {

// A volume and a file's number on it: links of either kind give one file many names.
using FileNumber = std::pair<std::uint64_t, std::uint64_t>;

class Inputs {
 public:
  // The path that was opened, and the shards that it led to.
  Inputs(const std::string& path, const safetensors::SafeOpen& file);
  explicit Inputs(const std::vector<std::string>& paths);

  bool contain_path(const std::string& path) const;
  bool contain_standard_output() const;

 private:
  void add(const std::string& path);
  bool contain(const FileNumber& number) const;

  std::vector<FileNumber> files_;
};

// Throws a Failure.
void refuse_terminal();

// For what the library writes from A to B. B may be A if A is one file, because the library replaces a file whole. B may
// not be a stream to the file that is read, nor one of several files of a model.
void check_output(const std::string& into, const Inputs& inputs, bool is_model);

}  // namespace cli
