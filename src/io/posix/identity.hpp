// A file's identity, as the system's answer about it says.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/stat.h>

#include "io/identity.hpp"

namespace st::io {

inline Identity identity_of(const struct stat& status) {
#if defined(__APPLE__)
  const timespec modified = status.st_mtimespec;
  const timespec changed = status.st_ctimespec;
#else
  const timespec modified = status.st_mtim;
  const timespec changed = status.st_ctim;
#endif
  return {static_cast<std::uint64_t>(status.st_dev),
          static_cast<std::uint64_t>(status.st_ino),
          static_cast<std::uint64_t>(status.st_size),
          {modified.tv_sec, modified.tv_nsec},
          {changed.tv_sec, changed.tv_nsec}};
}

}  // namespace st::io
