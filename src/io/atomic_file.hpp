// Writes a file atomically: the complete file replaces the old one, or nothing changes.
//
// The bytes go to a temporary file in the target's directory, without a name if the system has such files. commit()
// gives it the target's name with one link or rename. Until then the old file is untouched, even if the process is
// killed. A process killed between naming the temporary file and renaming it leaves the file behind. So does any killed
// process on a system without unnamed files. The random name of the file begins with ".NAME.st-new-". Its lock ends with
// the process, so the next writer of the target recognizes the file as stale and removes it.
//
// A new file gets its mode from the umask. A replacement inherits the old file's access rights: owner, mode, access
// control lists. Until then only its owner can open it. A symbolic link is followed. Other hard links, mappings and
// open descriptors keep the old file.
//
// FIFOs, devices and standard output have nothing to replace: they are written directly, in order.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "io/source.hpp"

namespace st::io {

class EditedFile;

struct CreateOptions {
  bool replace = true;  // false: an existing path is an error
  bool sync = false;    // commit() returns when the file and its name are on the disk
  bool streams = true;  // false: a FIFO, device or descriptor is an error, and is not opened
};

class AtomicFile {
 public:
  // Throws Status::open. The target is then unchanged.
  static AtomicFile create(const char* path, const CreateOptions& options);

  AtomicFile();
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&& other) noexcept;
  ~AtomicFile();  // without commit(), no file remains

  // Whether bytes can only be written from front to back, by one thread at a time.
  bool in_order() const { return in_order_; }

  // Sets the length of the file. Throws if the process may not write so much.
  void set_size(std::uint64_t size) const;
  // Allocates the blocks at once, if the filesystem can. A full disk is then an error before the first byte, and
  // writing into allocated blocks is a third faster. Not for bytes that are copied from files, which may share blocks.
  void reserve(std::uint64_t size) const;

  // From any number of threads, unless in_order().
  void write_at(std::uint64_t offset, const void* data, std::size_t n) const;
  // Copies bytes of another file or memory; inside the kernel if it can. A hole in the other file becomes a hole here,
  // so nothing may have been written there before.
  void copy_at(std::uint64_t offset, const Source& source, std::uint64_t from, std::uint64_t n) const;

  // If it throws, the old file is in place, unless the message says that the new one is: then only the directory could
  // not be synced. After a failure the file is abandoned. Like every write, throws Status::state in a process forked
  // after create().
  void commit();
  // The same, but only over a file that is still as it was when the edit began. Status::state if it was edited, replaced
  // or removed since.
  void commit_over(const EditedFile& edited);

 private:
  class State;

  std::unique_ptr<State> state_;
  bool in_order_ = false;
};

}  // namespace st::io
