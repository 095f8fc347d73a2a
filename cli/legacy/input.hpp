// The bytes of a legacy checkpoint: a file, or memory.
//
// Everything is read by position and copied. Nothing is parsed in a mapping, since another process could change it
// between a check and its use.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "descriptor.hpp"

namespace cli::legacy {

class Input {
 public:
  // Throws a Failure if the path is no regular file that can be read.
  explicit Input(const std::string& path);
  Input(Descriptor file, std::uint64_t size, std::string path);

  // The content of an entry of an archive, or of a test.
  static Input of_memory(std::string bytes);

  std::uint64_t size() const { return size_; }
  const std::string& path() const { return path_; }
  int descriptor() const { return file_.get(); }  // -1: memory

  // Throws a Refusal if the file ends before, and a Failure if the system cannot read it.
  void read(std::uint64_t offset, void* to, std::size_t n) const;

 private:
  Input() = default;

  Descriptor file_;
  std::uint64_t size_ = 0;
  std::string path_;
  std::string memory_;
};

}  // namespace cli::legacy
