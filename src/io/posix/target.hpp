// What a path leads to, for somebody who is about to write there.
//
// The last component is followed through symbolic links by hand, so that a link is kept and the file it names is
// replaced. The folder stays open: whatever happens to the working directory or to the folders above in the meantime,
// the file ends where it was meant to when the writing began.
//
// In a sticky directory that others can write to, such as /tmp, nothing is written to or through what belongs to another
// user: the rules of Linux's protected_symlinks, protected_regular (level 2) and protected_fifos (level 2), whatever the
// system's settings are. A link, file or FIFO is another user's if its owner is neither the effective user of the
// process nor the owner of the directory. The filesystem user of Linux is not asked for: the only call that returns it
// can also set it, and a sandbox may end the process for that.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <string>

#include "io/posix/descriptor.hpp"

namespace st::io {

struct Target {
  enum class Kind : std::uint8_t {
    absent,
    regular,
    stream,      // FIFO, device: bytes can only be written one after the other
    descriptor,  // /dev/stdout and its like: `name` is the number
  };

  Kind kind = Kind::absent;
  bool through_link = false;
  Descriptor folder;      // for *at() calls only
  std::string name;       // in that folder
  std::string shown;      // the path as the caller gave it, quoted
  struct stat status {};  // unless absent
};

// Throws Status::open for what can never be written to: a folder, a socket, a path that does not exist on the way.
Target find_target(const char* path);

// Throws Status::open, EACCES, if the directory is sticky, others can write to it, and `owner` is another user.
void require_own(const Target& target, uid_t owner);

// Throws Status::open when the rename that would replace a regular file could never succeed, and when the file was
// made read-only, which a rename does not ask.
void require_replaceable(const Target& target);

// Opens a stream for writing. Throws for another user's FIFO in a sticky directory, and when something else has taken its place since find_target().
Descriptor open_stream(const Target& target);

}  // namespace st::io
