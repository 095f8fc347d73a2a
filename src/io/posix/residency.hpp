// How much of a file the page cache holds: the difference between copying and waiting for the disk.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

namespace st::io {

struct Residency {
  std::uint64_t resident = 0;  // bytes of the range that need no disk, in whole pages
  bool dirty = false;          // some of it is newer than what the disk has
};

// Nothing when the system does not tell.
std::optional<Residency> residency(int descriptor, std::uint64_t offset, std::uint64_t n);

}  // namespace st::io
