// SPDX-License-Identifier: Apache-2.0
#include "io/posix/write_all.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>

namespace st::io {

namespace {

constexpr std::size_t kMostAtOnce = std::size_t{1} << 30;  // Linux stops a little below 2 GiB

constexpr int kMostInterruptions = 10;  // a timer's signals may come faster than a copy

// Only where the build forgot to ask for them are offsets shorter, and would files beyond 2 GiB be written wrongly.
static_assert(sizeof(off_t) == sizeof(std::uint64_t));

// Pieces that end on multiples of this in the file let the page cache take large folios: half the time of one write
// of hundreds of megabytes.
constexpr std::size_t kPiece = std::size_t{8} << 20;

// A pipe whose reader has gone is an error of this call, not a signal that ends the caller's process.
class NoPipeSignal {
 public:
  NoPipeSignal() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  NoPipeSignal(const NoPipeSignal&) = delete;
  NoPipeSignal& operator=(const NoPipeSignal&) = delete;
  ~NoPipeSignal() {
    const timespec now{};
    while (!was_pending_ && sigtimedwait(&pipe_, nullptr, &now) < 0 && errno == EINTR) {}
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

 private:
  sigset_t pipe_;
  sigset_t before_;
  bool was_pending_ = false;
};

}  // namespace

int write_all_at(int descriptor, std::uint64_t offset, const void* data, std::size_t n) {
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
  const NoPipeSignal quiet;
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

std::uint64_t copy_in_kernel(int from, std::uint64_t from_offset, int to, std::uint64_t to_offset, std::uint64_t n) {
#if defined(__linux__)
  std::uint64_t done = 0;
  int interruptions = 0;  // in a row
  while (done < n) {
    off_t source = static_cast<off_t>(from_offset + done);
    off_t target = static_cast<off_t>(to_offset + done);
    const ssize_t copied =
        copy_file_range(from, &source, to, &target, std::min<std::uint64_t>(n - done, kMostAtOnce), 0);
    if (copied < 0 && errno == EINTR && ++interruptions < kMostInterruptions) continue;
    if (copied <= 0) break;
    interruptions = 0;
    done += static_cast<std::uint64_t>(copied);
  }
  return done;
#else
  static_cast<void>(from), static_cast<void>(from_offset), static_cast<void>(to), static_cast<void>(to_offset);
  return n - n;
#endif
}

Extent stored_bytes(int file, std::uint64_t at, std::uint64_t end) {
#if defined(SEEK_DATA)
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
#else
  static_cast<void>(file);
  return {at, end};
#endif
}

// Not a retry of a failed sync: an interrupted one has not failed yet.
int sync_now(int descriptor) {
  while (fsync(descriptor) != 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

// Network filesystems tell of a full disk only when a descriptor is closed.
int errors_of_closing(int descriptor) {
  const int copy = fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
  if (copy < 0) return errno;
  return close(copy) == 0 || errno == EINTR ? 0 : errno;
}

}  // namespace st::io
