// A regular file whose bytes are about to be changed in place, held against other editors.
//
// The lock (flock) is advice: it keeps two edits by this library from losing one another's change, and asks nothing
// of those who only read.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "io/descriptor.hpp"
#include "io/source.hpp"

namespace st::io {

class EditedFile {
 public:
  // Throws Status::open, and Status::state when somebody else is editing.
  static EditedFile open(const char* path);

  // For reading; a second descriptor. To be taken once.
  Source take_source() { return std::move(source_); }

  // One write. A process that is killed has written all of it or nothing if it lies inside one page (4096 bytes).
  void patch(std::uint64_t offset, const void* data, std::size_t n, bool sync);

 private:
  std::string shown_;
  Source source_;
  Descriptor file_;
};

}  // namespace st::io
