// One state of one file: who writes to it, changes its access, renames it or puts another file in its place changes
// this too. A new name (link) also does.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/stat.h>

#include <cstdint>

namespace st::io {

struct Identity {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::uint64_t size = 0;
  std::int64_t modified[2] = {};  // seconds, nanoseconds
  std::int64_t changed[2] = {};

  bool operator==(const Identity&) const = default;
  // In whatever state: true also after it was written to.
  bool same_file(const Identity& other) const { return device == other.device && inode == other.inode; }
};

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
