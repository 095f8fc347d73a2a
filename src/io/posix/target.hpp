// What a path leads to, for somebody who is about to write there.
//
// The last component is followed through symbolic links by hand, so that a link is kept and the file it names is
// replaced. In a folder where everybody may put links (sticky, as /tmp), a link of somebody else is not followed: that
// is the kernel's rule where it follows links itself (protected_symlinks). The folder stays open: whatever happens to
// the working directory or to the folders above in the meantime, the file ends where it was meant to when the writing
// began.
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

// Throws Status::open when the rename that would replace a regular file could never succeed, and when the file was
// made read-only, which a rename does not ask.
void require_replaceable(const Target& target);

// Opens a stream for writing. Throws when something else has taken its place since find_target().
Descriptor open_stream(const Target& target);

}  // namespace st::io
