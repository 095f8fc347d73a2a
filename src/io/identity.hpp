// One state of one file: who writes to it, changes its access, renames it or puts another file in its place changes
// this too. A new name (link) also does.
// SPDX-License-Identifier: Apache-2.0
#pragma once

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

}  // namespace st::io
