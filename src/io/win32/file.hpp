// Regular files open for reading, the identity of a file, and reads and writes of any length.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "io/source.hpp"
#include "io/win32/os.hpp"

namespace st::io {

// Returns nullopt and sets the last error if the handle is not a file on a disk.
std::optional<Identity> identity_of(HANDLE file);

// The next four return 0 or the system's error. They continue after partial reads and writes, and split lengths beyond
// the 32 bits of one system call. Any number of threads may use one handle.

// Reads n bytes, or fewer at the end of the file. `got` is the number of bytes read.
int read_all_at(HANDLE file, std::uint64_t offset, void* dst, std::size_t n, std::size_t& got);
int write_all_at(HANDLE file, std::uint64_t offset, const void* data, std::size_t n);
// Writes to a pipe, console or device.
int write_all(HANDLE stream, const void* data, std::size_t n);
int sync_now(HANDLE file);

// A regular file, open for reading.
//
// The handle stays open until the object is destroyed, because a process may have millions of handles. It is opened for
// overlapped I/O: on other handles, the system serializes calls. It is opened with all sharing flags, so other
// processes may write to, rename, replace and delete the file.
class RegularFile {
 public:
  // Follows links. Throws Status::open, with the kind of file, for pipes, consoles, devices and volumes. Opens `native`;
  // messages contain `path`. Returns nullopt if the path is a directory.
  static std::optional<RegularFile> open_unless_directory(const std::wstring& native, std::string path);
  // Same, but throws if the path is a directory.
  static RegularFile open(const std::wstring& native, std::string path);
  // Reopens the caller's file so that the position of the caller's handle does not change. If the system refuses,
  // duplicates the handle, which shares the position.
  static RegularFile duplicate(std::intptr_t handle);

  HANDLE handle() const { return handle_.get(); }
  std::intptr_t number() const { return reinterpret_cast<std::intptr_t>(handle()); }  // the handle, as Mapping takes it
  const std::string& path() const { return path_; }                                   // as given; empty for a duplicate
  std::uint64_t size() const { return identity_.size; }                               // at open
  const Identity& identity() const { return identity_; }                              // at open
  bool remote() const { return remote_; }  // on a network filesystem, where mapping is slow
  std::string shown() const;               // for messages

  // Reads all n bytes. Throws Status::truncated if the file is too short, Status::read if the system reports an error.
  // Any thread may call this.
  void read_at(std::uint64_t offset, void* dst, std::size_t n) const;

  // See Source.
  Overwritten overwritten() const;

  // Reopens the file with additional flags. Returns an empty handle if the system refuses.
  Handle reopen(DWORD flags) const;

 private:
  static RegularFile adopt(Handle handle, std::string path);

  Handle handle_;
  std::string path_;
  Identity identity_;
  bool remote_ = false;
};

}  // namespace st::io
