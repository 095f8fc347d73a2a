// Writes a file atomically: the complete file replaces the old one, or nothing changes.
//
// The bytes go to a temporary file in the target's directory, without a name if the system supports that (O_TMPFILE).
// commit() gives it the target's name with one link or rename. Until then the old file is untouched, even if the
// process is killed. A process killed between naming the temporary file and renaming it leaves the file behind. So does
// any killed process on a system without unnamed files. The leftover has a random name that begins with
// ".NAME.st-new-". The kernel releases its lock with the process, so the next writer of the target recognizes the file
// as stale and removes it.
//
// A new file gets its mode from the umask. At commit(), a replacement inherits the old file's access rights: owner,
// mode, access control lists. Until then only its owner can open it. Symbolic links are followed, or replaced if asked.
// Other hard links, mappings and open descriptors keep the old file.
//
// FIFOs, devices and standard output are written directly, in order, because there is nothing to replace.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "io/source.hpp"

namespace st::io {

class EditedFile;

struct CreateOptions {
  bool replace = true;          // false: an existing path is an error
  bool sync = false;            // commit() waits until the file and its name are on the disk
  bool replace_link = false;    // a symbolic link is replaced, by a file of mode 0600, and not followed
  bool streams = true;          // false: reject FIFOs, devices and descriptors without opening them
  bool only_unchanged = false;  // commit() replaces only the file that create() has seen, as it was then
};

class AtomicFile {
 public:
  // Throws Status::open, and leaves the target unchanged.
  static AtomicFile create(const char* path, const CreateOptions& options);

  AtomicFile();
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&& other) noexcept;
  ~AtomicFile();  // without commit(), no file remains

  // Whether bytes can only be written from front to back, by one thread at a time.
  bool in_order() const { return in_order_; }

  // Sets the length of the file. Throws if the process may not write files that large.
  void set_size(std::uint64_t size) const;
  // Preallocates the blocks, if the filesystem can. A full disk is then reported before the first byte, and writing
  // into allocated blocks is a third faster. Do not use this for bytes copied from files, because such copies may share
  // blocks.
  void reserve(std::uint64_t size) const;

  // May be called from any number of threads, unless in_order().
  void write_at(std::uint64_t offset, const void* data, std::size_t n) const;
  // Copies bytes of another file or memory, inside the kernel if possible. A hole in the other file becomes a hole
  // here, so the destination range must not have been written before.
  void copy_at(std::uint64_t offset, const Source& source, std::uint64_t from, std::uint64_t n) const;

  // If this throws, the old file is still in place, unless the message says that the new one is: then only syncing the
  // directory failed. Windows without POSIX renames may also refuse to rename the old file back: the next create() then
  // does that. After a failure the new file is abandoned. Like every write, throws Status::state in a process forked
  // after create(). Calls `last_look` as late as possible, while it has the target's lock; it may throw.
  void commit(const std::function<void()>& last_look = {});
  // Same, but only if the target is unchanged since the edit began. Throws Status::state if it was edited, replaced or
  // removed since then.
  void commit_over(const EditedFile& edited);

 private:
  class State;

  std::unique_ptr<State> state_;
  bool in_order_ = false;
};

}  // namespace st::io
