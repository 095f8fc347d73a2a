// SPDX-License-Identifier: Apache-2.0
#include "io/posix/write_all.hpp"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "io/posix/write_signals.hpp"

namespace st::io {

namespace {

constexpr std::size_t kMostAtOnce = std::size_t{1} << 30;  // Linux stops a little below 2 GiB

// Only where the build forgot to ask for them are offsets shorter, and would files beyond 2 GiB be written wrongly.
static_assert(sizeof(off_t) == sizeof(std::uint64_t));

// Pieces that end on multiples of this in the file let the page cache take large folios: half the time of one write
// of hundreds of megabytes.
constexpr std::size_t kPiece = std::size_t{8} << 20;

}  // namespace

int write_all_at(int descriptor, std::uint64_t offset, const void* data, std::size_t n) {
  const NoWriteSignals quiet;
  const auto* at = static_cast<const char*>(data);
  while (n > 0) {
    const std::size_t piece = kPiece - static_cast<std::size_t>(offset % kPiece);
    const ssize_t written = pwrite(descriptor, at, std::min(n, piece), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return written < 0 ? errno : EIO;
    at += written;
    offset += static_cast<std::uint64_t>(written);
    n -= static_cast<std::size_t>(written);
  }
  return 0;
}

int write_all(int descriptor, const void* data, std::size_t n) {
  const NoWriteSignals quiet;
  const auto* at = static_cast<const char*>(data);
  while (n > 0) {
    const ssize_t written = write(descriptor, at, std::min(n, kMostAtOnce));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno == EAGAIN) {  // somebody made the caller's pipe non-blocking
      pollfd room{descriptor, POLLOUT, 0};
      poll(&room, 1, -1);
      continue;
    }
    if (written <= 0) return written < 0 ? errno : EIO;
    at += written;
    n -= static_cast<std::size_t>(written);
  }
  return 0;
}

int set_length(int descriptor, std::uint64_t size) {
  const NoWriteSignals quiet;
  while (ftruncate(descriptor, static_cast<off_t>(size)) != 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

// Not a retry of a failed sync: an interrupted one has not failed yet.
int sync_now(int descriptor) {
#if defined(F_FULLFSYNC)  // macOS, where fsync() leaves the bytes in the disk's cache. Not every filesystem has this.
  if (fcntl(descriptor, F_FULLFSYNC) == 0) return 0;
#endif
  while (fsync(descriptor) != 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

}  // namespace st::io
