// The output for the bytes of a tensor: standard output, a FIFO, a device or a regular file.
//
// A regular file appears at its path whole or not at all: its bytes go to a new file in the same folder, which is then
// renamed. So nothing is removed that this program did not create, and OUT keeps its content until then.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "descriptor.hpp"
#include "inputs.hpp"

namespace cli {

class OutputFile {
 public:
  // An empty path is standard output. Throws a Failure for a terminal, and for one of the inputs; and where it may
  // replace nothing for what is there, also in finish() for what has come meanwhile.
  OutputFile(const std::string& path, const Inputs& inputs, bool may_replace = true);
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile();

  void write(const void* data, std::size_t size);
  void finish();

 private:
  void open_descriptor(int number);
  void open_path(const std::string& path);
  void open_stream(const std::string& path);
  void open_beside(const std::string& path, bool replaces);
  void create_beside(mode_t mode);
  void publish();
  void refuse_input(int descriptor) const;
  void drop();
  [[noreturn]] void fail(int os_error) const;

  const Inputs& inputs_;
  const bool may_replace_;
  const bool standard_;
  const std::string shown_;
  Descriptor file_;
  Descriptor folder_;     // of a regular file
  std::string name_;      // in the folder
  std::string new_name_;  // of the new file; empty: there is none
};

}  // namespace cli
