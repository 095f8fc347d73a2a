// Finds the file that a path to be written leads to, and copies the access rights of the old file to the new one.
//
// We resolve symbolic links in the last component ourselves: the link stays, and the file that it points to is
// replaced. The directory stays open, so the rename happens there even if the working directory or a parent directory
// changes.
//
// In a sticky directory that others can write to, such as /tmp, another user's files and links are never written to or
// followed. The rules are the same as Linux's protected_symlinks, protected_regular (level 2) and protected_fifos
// (level 2), but always apply. A link, file or FIFO is another user's if its owner is neither the effective user of the
// process nor the owner of the directory. We do not use Linux's filesystem UID: the only call that returns it can also
// set it, and a sandbox may kill the process for that.
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
    link,        // a symbolic link that is to be replaced itself
  };

  Kind kind = Kind::absent;
  bool through_link = false;
  Descriptor directory;   // for *at() calls only
  std::string name;       // in that directory
  std::string shown;      // the path as the caller gave it, quoted
  struct stat status {};  // unless absent
};

// Throws Status::open if the path can never be written: a directory, a socket, or a path in a missing directory. With
// `replace_link`, a symbolic link is the target, unless it leads to a descriptor as /dev/stdout does.
Target find_target(const char* path, bool replace_link = false);

// Throws Status::open with EACCES if the directory is sticky, others can write to it, and `owner` is another user.
void require_own(const Target& target, uid_t owner);

// Throws Status::open if no rename could replace this regular file or link. Also throws if the file is read-only, which
// a rename would ignore.
void require_replaceable(const Target& target);
// Throws if the directory is append-only: names can be added there, but neither replaced nor removed, so a temporary file
// would stay.
void require_no_append_only(const Target& target);

// Opens a stream for writing. Throws for another user's FIFO in a sticky directory, and if the stream has been replaced
// since find_target().
Descriptor open_stream(const Target& target);

// The access rights that a replacement inherits from the old file: owner, group, mode, access control lists, and the
// extended attributes that do not describe the bytes.
//
// In a file with an access control list, the group bits of the mode are the maximum that the list may grant. Without
// the list, they would admit a group that the list excludes. If a list cannot be read or copied, only the owner keeps
// access.
//
// Rights to run the file as another user (set-user-ID, capabilities) are not inherited.
struct Access {
  uid_t owner = 0;
  gid_t group = 0;
  mode_t mode = 0;
  Attributes attributes;

  bool operator==(const Access& other) const {
    return owner == other.owner && group == other.group && mode == other.mode && attributes == other.attributes;
  }
};

// Returns nullopt if there is no regular file of this name. Throws Status::open if its owner and mode cannot be read.
std::optional<Access> access_of(int directory, const std::string& name);

// Gives a file these access rights, or fewer if some cannot be set. Until then, only its owner may open it. Returns 0,
// or the errno if the mode could not be set.
int give_access(int file, const Access& access);

}  // namespace st::io
