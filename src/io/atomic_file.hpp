// A file that arrives whole or not at all.
//
// The bytes go to a temporary file in the target's folder, which has no name if the system can make such a file;
// commit() puts it in the target's place with one link or rename. Until then the old file is untouched, also if the
// process is killed. A process that is killed between naming the temporary file and renaming it, or on a system without
// nameless files, leaves it behind under a random name that begins with ".NAME.st-new-". Its lock ends with the process;
// so the next writer of the target can tell it from a file in use, and removes it.
//
// A new file gets its mode from the umask. A replaced one hands on who may do what with it (access.hpp), and until then
// the new one is open to its owner only. A symbolic link is followed. Other hard links to a replaced file keep the old
// bytes, and so does whoever has it open or mapped.
//
// FIFOs, devices and standard output have nothing to replace: they are written through, in order.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "io/identity.hpp"
#include "io/source.hpp"

namespace st::io {

struct CreateOptions {
  bool replace = true;  // false: an existing path is an error
  bool sync = false;    // commit() returns when the file and its name are on the disk
};

class AtomicFile {
 public:
  // Throws Status::open; nothing of the target has changed then.
  static AtomicFile create(const char* path, const CreateOptions& options);

  AtomicFile();
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&& other) noexcept;
  ~AtomicFile();  // without commit() nothing is left behind

  // Bytes can only be written one after the other, from one thread at a time.
  bool in_order() const { return in_order_; }

  // How long the file will be. Refuses what the process may not write instead of letting a signal end it.
  void set_size(std::uint64_t size) const;
  // Takes the space for it at once, where the filesystem can: a full disk is known before the first byte, and writing
  // into space that is there is a third faster. Not for bytes that are copied from files, which may be shared.
  void reserve(std::uint64_t size) const;

  // From any number of threads, unless in_order().
  void write_at(std::uint64_t offset, const void* data, std::size_t n) const;
  // Bytes of another file or memory; they do not pass through this process where the kernel can copy. What is a hole
  // in the other file becomes one here: nothing may have been written there before.
  void copy_at(std::uint64_t offset, const Source& source, std::uint64_t from, std::uint64_t n) const;

  // Throws with the old file in place, except where the message says that the new one is: only the folder could
  // not be synced then. After a failure the file is given up; nothing is tried again.
  void commit();
  // The same, but only over this state of the target. Status::state when the target was edited, replaced or removed
  // since: what others wrote meanwhile stays.
  void commit_over(const Identity& seen);

 private:
  class State;

  std::unique_ptr<State> state_;
  bool in_order_ = false;
};

}  // namespace st::io
