// SPDX-License-Identifier: Apache-2.0
#include "io/posix/direct_read.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>

namespace st::io {

namespace {

constexpr std::uint64_t kUsualAlignment = 4096;  // enough for every disk that does not say otherwise
#if defined(STATX_DIOALIGN)
constexpr std::uint64_t kMostAlignment = 65536;
#endif

}  // namespace

int direct_flag() { return O_DIRECT; }

// Not less than a page, whatever the disk says: a process that forks while the disk writes to a page, and then writes
// beside it, can lose what the disk writes.
std::uint64_t direct_alignment([[maybe_unused]] int descriptor) {
#if defined(STATX_DIOALIGN)
  struct statx status {};
  if (statx(descriptor, "", AT_EMPTY_PATH, STATX_DIOALIGN, &status) == 0 && (status.stx_mask & STATX_DIOALIGN) != 0) {
    const std::uint64_t wanted = std::max(status.stx_dio_mem_align, status.stx_dio_offset_align);
    return status.stx_dio_offset_align == 0 || wanted > kMostAlignment ? 0 : std::max(wanted, kUsualAlignment);
  }
#endif
  return kUsualAlignment;
}

}  // namespace st::io
