// What kind of filesystem a file lies on.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/stat.h>

#include <cstdint>

namespace st::io {

enum class MountKind : std::uint8_t {
  local,   // or unknown
  remote,  // a network or FUSE, where mapping is slow and servers know nothing of our mappings
  kernel,  // /proc and its like, whose files have no size
};

MountKind mount_kind(int descriptor, const struct stat& status);

}  // namespace st::io
