// SPDX-License-Identifier: Apache-2.0
#include "io/posix/space.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>

#include "io/posix/write_signals.hpp"

namespace st::io {

namespace {

constexpr std::size_t kMostAtOnce = std::size_t{1} << 30;  // Linux stops a little below 2 GiB
constexpr int kMostInterruptions = 10;                     // a timer's signals may come faster than a copy
constexpr std::uint64_t kLeastToTake = std::uint64_t{1} << 20;
constexpr std::uint64_t kSmallestBlock = 512;  // of any filesystem

// Only whole blocks are shared, with whole blocks.
bool may_share(std::uint64_t from_offset, std::uint64_t to_offset) {
  return from_offset % kSmallestBlock == 0 && to_offset % kSmallestBlock == 0;
}

}  // namespace

std::uint64_t copy_in_kernel(int from, std::uint64_t from_offset, int to, std::uint64_t to_offset, std::uint64_t n) {
  const NoWriteSignals quiet;
  // Blocks that are taken at once are filled faster than those that each page takes, on ext4 by a fifth. Where there
  // are not so many the copy says so. One that shares blocks needs none: to take them could fill the filesystem.
  if (n >= kLeastToTake && !may_share(from_offset, to_offset)) {
    static_cast<void>(fallocate(to, 0, static_cast<off_t>(to_offset), static_cast<off_t>(n)));
  }
  std::uint64_t done = 0;
  int interruptions = 0;  // in a row
  while (done < n) {
    off_t source = static_cast<off_t>(from_offset + done);
    off_t target = static_cast<off_t>(to_offset + done);
    const ssize_t copied = copy_file_range(from, &source, to, &target,
                                           static_cast<std::size_t>(std::min<std::uint64_t>(n - done, kMostAtOnce)), 0);
    if (copied < 0 && errno == EINTR && ++interruptions < kMostInterruptions) continue;
    if (copied <= 0) break;
    interruptions = 0;
    done += static_cast<std::uint64_t>(copied);
  }
  return done;
}

Extent stored_bytes(int file, std::uint64_t at, std::uint64_t end) {
  const off_t begin = lseek(file, static_cast<off_t>(at), SEEK_DATA);
  if (begin < 0) {
    struct stat status {};
    const bool hole = errno == ENXIO && fstat(file, &status) == 0 && static_cast<std::uint64_t>(status.st_size) >= end;
    return hole ? Extent{end, end} : Extent{at, end};
  }
  if (static_cast<std::uint64_t>(begin) >= end) return {end, end};
  const off_t stop = lseek(file, begin, SEEK_HOLE);
  const auto first = static_cast<std::uint64_t>(begin);
  return {first, stop <= begin ? end : std::min(static_cast<std::uint64_t>(stop), end)};
}

int take_space(int file, std::uint64_t size) {
  const NoWriteSignals quiet;
  for (int i = 0; i < kMostInterruptions; ++i) {
    if (fallocate(file, 0, 0, static_cast<off_t>(size)) == 0) return 0;
    const bool full = errno == ENOSPC || errno == EDQUOT || errno == EFBIG || errno == EIO;
    if (full) return errno;
    if (errno != EINTR) return 0;  // not every filesystem can
  }
  return 0;
}

}  // namespace st::io
