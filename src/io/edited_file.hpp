// A regular file whose metadata is about to be changed, held against other editors.
//
// The lock (flock) is advice: it keeps two edits by this library from losing one another's change. Readers do not ask
// for it; what keeps half of a change from them is in edit_lock.hpp.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "io/identity.hpp"
#include "io/posix/descriptor.hpp"
#include "io/source.hpp"

namespace st::io {

class EditedFile {
 public:
  // Throws Status::open, and Status::state when somebody else is editing.
  static EditedFile open(const char* path);

  EditedFile(EditedFile&&) = default;
  EditedFile& operator=(EditedFile&&) = delete;
  ~EditedFile();

  // For reading; a second descriptor. To be taken once.
  Source take_source() { return std::move(source_); }

  // The file as it was before anything was read.
  const Identity& seen() const { return seen_; }

  enum class Patch : std::uint8_t {
    done,
    changed,  // it is no longer as it was seen
    refused,  // readers cannot be kept from seeing half of the change
  };

  // One write. A process that is killed has written all of it or nothing if it lies inside one page (4096 bytes).
  Patch patch(std::uint64_t offset, const void* data, std::size_t n, bool sync);

 private:
  EditedFile() = default;

  std::string shown_;
  Source source_;
  Descriptor file_;
  Identity seen_;
};

}  // namespace st::io
