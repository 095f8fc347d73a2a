// A regular file whose metadata is about to be changed, locked against other editors.
//
// The lock (flock) is advisory: it prevents two edits by this library from losing each other's change. Readers do not
// take it. Another lock prevents them from seeing half of a change (posix/edit.hpp).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "io/source.hpp"

namespace st::io {

class EditedFile {
 public:
  // Throws Status::open, even if the file cannot be locked, and Status::state if another process edits it for two
  // seconds.
  static EditedFile open(const char* path);

  EditedFile(EditedFile&& other) noexcept;
  EditedFile& operator=(EditedFile&&) = delete;
  ~EditedFile();

  // Returns the source of its bytes, once.
  std::unique_ptr<Source> take_source();

  // The file as it was before anything was read.
  const Identity& seen() const;

  enum class Patch : std::uint8_t {
    done,
    changed,  // it is no longer in the state seen()
    refused,  // without locks, readers could see half of the change
  };

  // Writes once. A killed process has written all of it or nothing, if it is inside one page (4096 bytes).
  // Status::state if another process has held the lock for two seconds.
  Patch patch(std::uint64_t offset, const void* data, std::size_t n, bool sync);

  // Syncs the file and the directory that has its name. Throws Status::write.
  void sync() const;

 private:
  struct State;
  explicit EditedFile(std::unique_ptr<State> state);
  friend class EditLock;

  std::unique_ptr<State> state_;
};

}  // namespace st::io
