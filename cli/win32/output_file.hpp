// The output for the bytes of a tensor: standard output, a named pipe, a device or a regular file.
//
// A regular file appears at its path whole or not at all: its bytes go to a new file in the same folder, which is marked
// for deletion until it is complete, and then renamed. If the process ends, the system removes it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

#include "inputs.hpp"
#include "windows_text.hpp"

namespace cli {

class OutputFile {
 public:
  // An empty path is standard output. Throws a Failure for a terminal, and for one of the inputs; and where it may
  // replace nothing for what is there, also in finish() for what has come meanwhile.
  OutputFile(const std::string& path, const Inputs& inputs, bool may_replace = true);
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(const void* data, std::size_t size);
  void finish();

 private:
  void open_device(const std::wstring& path);
  void open_beside(const std::wstring& target);
  void create_beside();
  void publish();
  DWORD mark_deleted(bool deleted);  // 0 or the error
  [[noreturn]] void fail(DWORD error) const;

  const Inputs& inputs_;
  const bool may_replace_;
  const std::string path_;
  std::string name_;  // of a regular file
  Handle file_;       // none: standard output
};

}  // namespace cli
