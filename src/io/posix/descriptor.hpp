// A file descriptor that is closed when it goes.
//
// For those descriptors whose closing cannot matter. Where it can, because a file was written through one, the
// owner calls close() and looks at the answer.
//
// The numbers 0, 1 and 2 belong to the host even while they are closed, as in a daemon: its next printf would go into
// our file. Every Descriptor has a higher number, and what is opened for writing never has one of these, not even for a
// moment.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <optional>
#include <utility>

namespace st::io {

constexpr int kFirstDescriptor = 3;

// Returns the number, or a higher one that replaces it. -1 and errno if the process has no room for that.
inline int above_standard_streams(int number) {
  if (number < 0 || number >= kFirstDescriptor) return number;
  const int moved = ::fcntl(number, F_DUPFD_CLOEXEC, kFirstDescriptor);
  const int error = errno == EINVAL ? EMFILE : errno;  // EINVAL: the limit of the process is below 3
  ::close(number);
  if (moved < 0) errno = error;
  return moved;
}

class Descriptor {
 public:
  Descriptor() = default;
  // Takes over a number that this library has opened; it may get another one.
  explicit Descriptor(int number) : number_(above_standard_streams(number)) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    close();
    number_ = std::exchange(other.number_, -1);
    return *this;
  }
  ~Descriptor() { close(); }

  int get() const { return number_; }
  explicit operator bool() const { return number_ >= 0; }
  int release() { return std::exchange(number_, -1); }
  // As close(2); the number is gone whatever it answers.
  int close() { return number_ < 0 ? 0 : ::close(std::exchange(number_, -1)); }

 private:
  int number_ = -1;
};

// Returns another descriptor of an open file.
inline Descriptor duplicate(int descriptor) {
  return Descriptor(::fcntl(descriptor, F_DUPFD_CLOEXEC, kFirstDescriptor));
}

// Occupies those of the numbers 0, 1 and 2 that are free, with descriptors that cannot be written to. Two threads that
// need it at the same moment share the numbers: one of them may find a number free that the other has just given back.
class OccupiedStreams {
 public:
  OccupiedStreams() {
    for (int stream = 0; stream < kFirstDescriptor; ++stream) {
      if (::fcntl(stream, F_GETFD) >= 0) continue;
      const int number = ::open("/", kUnwritable | O_CLOEXEC);
      if (number >= kFirstDescriptor) ::close(number);
      if (number < 0 || number >= kFirstDescriptor) return;
      numbers_[count_++] = number;
    }
  }
  OccupiedStreams(OccupiedStreams&&) = delete;
  ~OccupiedStreams() {
    const int error = errno;
    while (count_ > 0) ::close(numbers_[--count_]);
    errno = error;
  }

 private:
#if defined(O_PATH)
  static constexpr int kUnwritable = O_PATH;
#else
  static constexpr int kUnwritable = O_RDONLY;
#endif

  int numbers_[kFirstDescriptor] = {};
  int count_ = 0;
};

// As openat(2), but not interrupted by signals, as network filesystems and FUSE otherwise are. All files of the library
// are opened here.
inline Descriptor open_file(int folder, const char* path, int flags, mode_t mode = 0) {
  std::optional<OccupiedStreams> occupied;
  if ((flags & O_ACCMODE) != O_RDONLY || (flags & O_CREAT) != 0) occupied.emplace();
  for (;;) {
    Descriptor opened(::openat(folder, path, flags | O_CLOEXEC, mode));
    if (opened || errno != EINTR) return opened;
  }
}

// That the process may have open.
inline std::size_t most_descriptors() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  return static_cast<std::size_t>(std::min<rlim_t>(limit.rlim_cur, std::size_t{1} << 30));
}

}  // namespace st::io
