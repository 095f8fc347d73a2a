// A regular file opened for an edit, locked against other editors.
//
// The lock (flock) is advisory: it prevents two edits by this library from losing each other's change. Readers do not
// take it. A second lock prevents them from seeing half of a change (posix/edit.hpp).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "io/source.hpp"

namespace st::io {

class EditedFile {
 public:
  // Throws Status::open if the file cannot be opened or locked, and Status::state if another process is still editing
  // it after two seconds.
  static EditedFile open(const char* path);

  EditedFile(EditedFile&& other) noexcept;
  EditedFile& operator=(EditedFile&&) = delete;
  ~EditedFile();

  // Returns the source of its bytes. Call this only once.
  std::unique_ptr<Source> take_source();

  // The state of the file before anything was read.
  const Identity& seen() const;

  enum class Patch : std::uint8_t {
    done,
    changed,  // it is no longer in the state seen()
    refused,  // no locks here, so readers could see half of the change
  };

  // Does a single write. If the range is inside one page (4096 bytes), a killed process has written all of it or
  // nothing. Throws Status::state if another process still holds the lock after two seconds.
  Patch patch(std::uint64_t offset, const void* data, std::size_t n, bool sync);

  // Writes the data of a tensor. Readers may see half of it. Returns false, and writes nothing, if the file is no
  // longer in the state seen(). Messages begin with `what`. Throws Status::write, after which a part of the bytes may
  // have been written. Throws Status::state as patch() does, before it writes.
  bool overwrite(const std::string& what, std::uint64_t offset, const void* data, std::size_t n, bool sync);

  // Syncs the file and its directory. Throws Status::write.
  void sync() const;

 private:
  struct State;
  struct AfterWrite;
  bool is_as_seen() const;
  explicit EditedFile(std::unique_ptr<State> state);
  friend class EditLock;

  std::unique_ptr<State> state_;
};

}  // namespace st::io
