// A regular file that is open for reading.
//
// The handle stays open as long as the object lives: a process may have millions of them. It is open for overlapped
// work, since the system lets the calls on any other handle wait for one another. It keeps nobody from writing to,
// renaming, replacing or deleting the file.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "io/source.hpp"
#include "io/win32/handle.hpp"

namespace st::io {

class PlainFile {
 public:
  // Links are followed. Pipes, consoles, devices and volumes are errors that say what they are. `path` is what messages
  // name, `native` what is opened. Nothing when it is a folder.
  static std::optional<PlainFile> open_unless_folder(const std::wstring& native, std::string path);
  static PlainFile open(const std::wstring& native, std::string path);
  // A handle of our own for the caller's open file; its position stays the caller's where the file can be opened again.
  static PlainFile duplicate(std::intptr_t handle);

  HANDLE handle() const { return handle_.get(); }
  std::intptr_t number() const { return reinterpret_cast<std::intptr_t>(handle()); }  // the handle, as Mapping takes it
  const std::string& path() const { return path_; }                                   // as given; empty for a duplicate
  std::uint64_t size() const { return identity_.size; }                               // when it was opened
  const Identity& identity() const { return identity_; }                              // when it was opened
  bool remote() const { return remote_; }  // of a network, where mapping is slow
  std::string shown() const;

  // All n bytes or an error: Status::truncated when the file ends before, Status::read otherwise. Any thread.
  void read_at(std::uint64_t offset, void* dst, std::size_t n) const;

  // Another handle of the file, with more flags. Empty if the system refuses.
  Handle reopen(DWORD flags) const;

 private:
  static PlainFile adopt(Handle handle, std::string path);

  Handle handle_;
  std::string path_;
  Identity identity_;
  bool remote_ = false;
};

}  // namespace st::io
