// What a path leads to, for somebody who is about to write there.
//
// The last component is followed through symbolic links by hand, so that a link is kept and the file it names is
// replaced. The folder stays open: whatever happens to the working directory or to the folders above in the
// meantime, the file ends where it was meant to when the writing began.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <string>

#include "io/descriptor.hpp"

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
  Descriptor folder;    // for *at() calls only
  std::string name;     // in that folder
  std::string shown;    // the path as the caller gave it, quoted
  struct stat status {};  // unless absent
};

// Throws Status::open for what can never be written to: a folder, a socket, a path that does not exist on the way.
Target find_target(const char* path);

}  // namespace st::io
