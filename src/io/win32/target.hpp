// What a path leads to, for somebody who is about to write there.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "io/win32/handle.hpp"
#include "io/win32/temp_file.hpp"

namespace st::io {

struct Target {
  enum class Kind : std::uint8_t {
    absent,
    regular,
    stream,  // pipe, console, device, standard output: bytes can only be written one after the other
  };

  Kind kind = Kind::absent;
  Place place;        // of a regular file, behind links
  std::string shown;  // the path as the caller gave it, quoted
  Handle stream;      // open for writing
};

// Throws Status::open for what can never be written to: a folder, a read-only file, a stream of a file ("a:b"), a link
// to nothing, a path that does not exist on the way. "/dev/stdout" and "/dev/stderr" are the standard handles, since
// Windows has no other name for them.
Target find_target(const char* path);

}  // namespace st::io
