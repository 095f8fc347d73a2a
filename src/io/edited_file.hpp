// A regular file whose metadata is about to be changed, held against other editors.
//
// The lock (flock) is advice: it keeps two edits by this library from losing one another's change. Readers do not ask
// for it; what keeps half of a change from them is in edit_lock.hpp.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "io/identity.hpp"
#include "io/source.hpp"

namespace st::io {

class EditedFile {
 public:
  // Throws Status::open, also if the file cannot be locked, and Status::state if another process is editing.
  static EditedFile open(const char* path);

  EditedFile(EditedFile&& other) noexcept;
  EditedFile& operator=(EditedFile&&) = delete;
  ~EditedFile();

  // For reading. To be taken once.
  std::unique_ptr<Source> take_source();

  // The file as it was before anything was read.
  const Identity& seen() const;

  enum class Patch : std::uint8_t {
    done,
    changed,  // it is no longer as it was seen
    refused,  // there are no locks to keep readers from seeing half of the change
  };

  // One write. A process that is killed has written all of it or nothing if it lies inside one page (4096 bytes).
  // Status::state if another process has held the lock for two seconds.
  Patch patch(std::uint64_t offset, const void* data, std::size_t n, bool sync);

 private:
  struct State;
  explicit EditedFile(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace st::io
