// One state of one file: its number on its disk, its size and its times. Every write, change of access, rename, link or
// replacement changes it.
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
