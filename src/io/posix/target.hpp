// The target of a path that is about to be written, and the access that a new file takes over from the old one.
//
// We follow the symbolic links of the last component ourselves: a link is kept, and the file that it names is replaced.
// The directory stays open, so the file gets its name there even if the working directory or a directory above changes.
//
// In a sticky directory that others can write to, such as /tmp, nothing is written to or through another user's file.
// The rules are the same as Linux's protected_symlinks, protected_regular (level 2) and protected_fifos (level 2), but
// always apply. A link, file or FIFO is another user's if its owner is neither the effective user of the process nor
// the owner of the directory. We do not ask for the filesystem user of Linux: the only call that returns it can also
// set it, and a sandbox may end the process for that.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <optional>
#include <string>

#include "io/posix/file.hpp"
#include "io/posix/system.hpp"

namespace st::io {

struct Target {
  enum class Kind : std::uint8_t {
    absent,
    regular,
    stream,      // FIFO, device: written from front to back
    descriptor,  // /dev/stdout, /dev/fd/N: `name` is the number
  };

  Kind kind = Kind::absent;
  bool through_link = false;
  Descriptor directory;   // for *at() calls only
  std::string name;       // in that directory
  std::string shown;      // the path as the caller gave it, quoted
  struct stat status {};  // unless absent
};

// Throws Status::open if the path can never be written: a directory, a socket, a missing directory on the way.
Target find_target(const char* path);

// Throws Status::open, EACCES, if the directory is sticky, others can write to it, and `owner` is another user.
void require_own(const Target& target, uid_t owner);

// Throws Status::open if no rename could replace this regular file, or if the file is read-only, which a rename
// ignores.
void require_replaceable(const Target& target);

// Opens a stream for writing. Throws for another user's FIFO in a sticky directory, and for something else that has
// taken the stream's place since find_target().
Descriptor open_stream(const Target& target);

// The access of a file, which its replacement takes over: owner, group, mode, access control lists, and the extended
// attributes that do not describe the bytes.
//
// In a file with an access control list, the group bits of the mode are the maximum that the list may grant. Without
// the list, they would admit a group that the list excludes. If a list cannot be read or copied, only the owner keeps
// access.
//
// Rights to run the file as another user (set-user-id, capabilities) are lost with its old bytes.
struct Access {
  uid_t owner = 0;
  gid_t group = 0;
  mode_t mode = 0;
  Attributes attributes;
};

// Returns nothing if there is no regular file of this name. Throws Status::open when its owner and mode cannot be read.
std::optional<Access> access_of(int directory, const std::string& name);

// Gives a file this access, or less if a part cannot be given. Until then, at most its owner may open it. Returns 0, or
// the errno of a mode that could not be set.
int give_access(int file, const Access& access);

}  // namespace st::io
