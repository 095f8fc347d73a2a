// Descriptors, reading and writing of POSIX systems.
// SPDX-License-Identifier: Apache-2.0
#include "io/posix/file.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <string_view>
#include <thread>

#include "base/error.hpp"
#include "io/posix/system.hpp"

namespace st::io {

namespace {

constexpr std::size_t kMostInOneCall = std::size_t{1} << 30;  // Linux stops a little below 2 GiB

// ---- descriptors ---------------------------------------------------------------------------------------------------

// Duplicates a descriptor above the standard streams. Returns -1 and sets errno if none is free.
int duplicated_above_streams(int number) {
  const int copy = ::fcntl(number, F_DUPFD_CLOEXEC, kFirstDescriptor);
  if (copy < 0 && errno == EINVAL) errno = EMFILE;  // the process's descriptor limit is below 3
  return copy;
}

// Moves a descriptor above the standard streams if necessary. Returns -1 and sets errno if none is free.
int above_standard_streams(int number) {
  if (number < 0 || number >= kFirstDescriptor) return number;
  const int moved = duplicated_above_streams(number);
  const int error = errno;
  ::close(number);
  errno = error;
  return moved;
}

// Occupies the free numbers among 0, 1 and 2 with descriptors that cannot be written to. If two threads do this at
// once, one may close its descriptor just before the other opens its file. That file is then moved to a higher number.
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
    while (count_ > 0) {
      const int number = numbers_[--count_];
      if (is_ours(number)) ::close(number);
    }
    errno = error;
  }

 private:
#if defined(O_PATH)
  static constexpr int kUnwritable = O_PATH;
  // While this thread waited for a FIFO's reader, the host may have put its own file there with dup2().
  static bool is_ours(int number) { return (::fcntl(number, F_GETFL) & O_PATH) != 0; }
#else
  static constexpr int kUnwritable = O_RDONLY;
  static bool is_ours(int /*number*/) { return true; }
#endif

  int numbers_[kFirstDescriptor] = {};
  int count_ = 0;
};

// ---- reading -------------------------------------------------------------------------------------------------------

// O_NONBLOCK: opening a FIFO or a device must not wait for its other end. Reads of regular files ignore it.
constexpr int kOpenFlags = O_RDONLY | O_NONBLOCK | O_NOCTTY;

constexpr std::chrono::milliseconds kLeasePause(5);

const char* kind_of(mode_t mode) {
  if (S_ISFIFO(mode)) return "a named pipe";
  if (S_ISSOCK(mode)) return "a socket";
  if (S_ISCHR(mode)) return "a character device";
  if (S_ISBLK(mode)) return "a block device";
  return "not a regular file";
}

bool is_special(mode_t mode) { return !S_ISREG(mode) && !S_ISDIR(mode) && !S_ISLNK(mode); }

[[noreturn]] void fail_special(mode_t mode, const std::string& shown) {
  fail(Status::open, "{} is {}, not a tensor file", shown, kind_of(mode));
}

// If the path is replaced after fstatat(), O_NONBLOCK prevents open() from blocking, and fstat() detects the
// replacement.
Descriptor look_and_open(int directory, const char* path, int extra_flags, std::string_view whole_path) {
  const int no_links = (extra_flags & O_NOFOLLOW) != 0 ? AT_SYMLINK_NOFOLLOW : 0;
  struct stat status {};
  if (fstatat(directory, path, &status, no_links) != 0) fail_os(Status::open, errno, "{}", in_quotes(whole_path));
  if (is_special(status.st_mode)) fail_special(status.st_mode, in_quotes(whole_path));
  Descriptor opened = open_regular(directory, path, kOpenFlags | extra_flags);
  if (!opened) fail_os(Status::open, errno, "{}", in_quotes(whole_path));
  return opened;
}

std::string absolute(const char* path) {
  if (path[0] == '/') return path;
  std::array<char, PATH_MAX> directory{};
  if (getcwd(directory.data(), directory.size()) == nullptr) return path;
  return std::string(directory.data()) + "/" + path;
}

// ---- writing -------------------------------------------------------------------------------------------------------

// With 32-bit offsets (without _FILE_OFFSET_BITS=64), files beyond 2 GiB would be corrupted.
static_assert(sizeof(off_t) == sizeof(std::uint64_t));

// Pieces that end on multiples of this size let the page cache use large folios. That takes half the time of a single
// write of hundreds of megabytes.
constexpr std::size_t kPiece = std::size_t{8} << 20;

constexpr std::array kSignals{SIGPIPE, SIGXFSZ};

}  // namespace

// ---- descriptors ---------------------------------------------------------------------------------------------------

Descriptor::Descriptor(int number) : number_(above_standard_streams(number)) {}

Descriptor open_file(int directory, const char* path, int flags, mode_t mode) {
  std::optional<OccupiedStreams> occupied;
  if ((flags & O_ACCMODE) != O_RDONLY) occupied.emplace();
  for (;;) {
    Descriptor opened(::openat(directory, path, flags | O_CLOEXEC, mode));
    if (opened || errno != EINTR) return opened;
  }
}

bool open_pipe(Descriptor& reads, Descriptor& writes) {
  const OccupiedStreams occupied;
  int ends[2];
  if (::pipe(ends) != 0) return false;
  reads = Descriptor(ends[0]);
  writes = Descriptor(ends[1]);
  if (!reads || !writes) return false;
  for (const int end : {reads.get(), writes.get()}) {
    if (::fcntl(end, F_SETFD, FD_CLOEXEC) != 0 || ::fcntl(end, F_SETFL, O_NONBLOCK) != 0) return false;
  }
  return true;
}

// The first attempt asks the holder to give up its lease. No signal reports when it has done so, so poll.
Descriptor open_regular(int directory, const char* path, int flags, std::chrono::seconds patience) {
  const auto end = std::chrono::steady_clock::now() + patience;
  for (;;) {
    Descriptor opened = open_file(directory, path, flags | O_NONBLOCK);
    if (opened || errno != EAGAIN || std::chrono::steady_clock::now() > end) return opened;
    std::this_thread::sleep_for(kLeasePause);
  }
}

Descriptor duplicate(int descriptor) { return Descriptor(duplicated_above_streams(descriptor)); }

std::size_t most_descriptors() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  return static_cast<std::size_t>(std::min<rlim_t>(limit.rlim_cur, std::size_t{1} << 30));
}

Identity identity_of(const struct stat& status) {
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

bool changed_lately(const struct stat& status, std::time_t since) {
  constexpr std::time_t kRecentSeconds = 5;  // some filesystems count the times of files in steps of two
  return since - status.st_ctime <= kRecentSeconds;
}

// ---- reading -------------------------------------------------------------------------------------------------------

std::optional<RegularFile> RegularFile::try_adopt(Descriptor descriptor, std::string path) {
  RegularFile file;
  file.descriptor_ = std::move(descriptor);
  file.path_ = std::move(path);
  struct stat status {};
  if (fstat(file.descriptor(), &status) != 0) fail_os(Status::open, errno, "{}", file.shown());
  if (S_ISDIR(status.st_mode)) return std::nullopt;
  if (is_special(status.st_mode)) fail_special(status.st_mode, file.shown());
  const MountKind mount = mount_kind(file.descriptor(), status);
  if (mount == MountKind::kernel) fail(Status::open, "{} is generated by the kernel, not a tensor file", file.shown());
  file.remote_ = mount == MountKind::remote;
  if (file.remote_ && fresh_status(file.descriptor(), status) != 0) fail_os(Status::open, errno, "{}", file.shown());
  file.identity_ = identity_of(status);
  file.size_ = file.identity_.size;
  file.being_written_ = io::changed_lately(status) && is_byte_locked(file.descriptor(), LockedByte::data);
  return file;
}

RegularFile RegularFile::adopt(Descriptor descriptor, std::string path) {
  const std::string shown = path;
  std::optional<RegularFile> file = try_adopt(std::move(descriptor), std::move(path));
  if (!file) fail(Status::open, "{} is a directory, not a tensor file", in_quotes(shown));
  return std::move(*file);
}

std::optional<RegularFile> RegularFile::open_unless_directory(const char* path) {
  return try_adopt(look_and_open(AT_FDCWD, path, 0, path), path);
}

RegularFile RegularFile::open(const char* path) {
  std::optional<RegularFile> file = open_unless_directory(path);
  if (!file) fail(Status::open, "{} is a directory, not a tensor file", in_quotes(path));
  return std::move(*file);
}

RegularFile RegularFile::open_at(int directory, const char* name, std::string path, bool may_be_link) {
  Descriptor opened = look_and_open(directory, name, may_be_link ? 0 : O_NOFOLLOW, path);
  return adopt(std::move(opened), std::move(path));
}

RegularFile RegularFile::duplicate(std::intptr_t descriptor) {
  const bool possible = descriptor >= 0 && descriptor <= INT_MAX;
  Descriptor copy = possible ? io::duplicate(static_cast<int>(descriptor)) : Descriptor();
  if (!copy) fail_os(Status::open, possible ? errno : EBADF, "descriptor {}", descriptor);
  // A descriptor with O_DIRECT would reject our unaligned reads. Only the caller may change its flags.
  if (direct_flag() != 0 && (fcntl(copy.get(), F_GETFL) & direct_flag()) != 0) {
    copy = io::reopen(copy.get(), kOpenFlags);
    if (!copy) fail_os(Status::open, errno, "descriptor {} cannot be reopened without O_DIRECT", descriptor);
  }
  return adopt(std::move(copy), {});
}

void RegularFile::advise(std::uint64_t offset, std::uint64_t n, Advice advice) const {
  if (!descriptor_ || n == 0) return;  // to the system, 0 bytes means "to the end of the file"
#if defined(POSIX_FADV_WILLNEED)       // an option of POSIX
  posix_fadvise(descriptor(), static_cast<off_t>(offset), static_cast<off_t>(n),
                advice == Advice::will_need ? POSIX_FADV_WILLNEED : POSIX_FADV_DONTNEED);
#else
  static_cast<void>(offset), static_cast<void>(n), static_cast<void>(advice);
#endif
}

void RegularFile::release_descriptor(bool mapped) {
  if (!descriptor_ || path_.empty()) return;
  absolute_ = absolute(path_.c_str());
  int refused = 0;
  if (!mapped) pin_ = Mapping::of(descriptor(), 0, 1, MapKind::read_only, refused);
  inode_in_use_ = mapped || pin_.data() != nullptr;
  struct stat status {};
  if (remote_ && fresh_status(descriptor(), status) == 0) {
    const Identity now = identity_of(status);
    if (now.same_bytes(identity_)) identity_ = now;
  }
  descriptor_.close();
}

std::string RegularFile::shown() const { return path_.empty() ? "the descriptor's file" : in_quotes(path_); }

void RegularFile::require_same(const struct stat& status) const {
  const Identity now = identity_of(status);
  const bool same = inode_in_use_ && !remote_ ? now.same_file(identity_) : now == identity_;
  if (!same) fail(Status::read, "{} is no longer the file that was opened", shown());
}

bool RegularFile::is_intact() const {
  struct stat status {};
  if (fstat(descriptor(), &status) != 0) return false;
  const Identity now = identity_of(status);
  return now.same_file(identity_) && now.size >= size_;
}

Overwritten RegularFile::overwritten() const {
  if (being_written_) return Overwritten::yes;
  struct stat status {};
  const auto ask_descriptor = [&] {
    return remote_ ? fresh_status(descriptor(), status) : fstat(descriptor(), &status);
  };
  const int failed = descriptor_ ? ask_descriptor() : fresh_status(path_to_reopen().c_str(), status);
  if (failed != 0 && descriptor_) fail_os(Status::read, errno, "{}", shown());
  const Identity now = identity_of(status);
  if (failed != 0 || !now.same_file(identity_)) return Overwritten::unknown;
  return now.same_bytes(identity_) ? Overwritten::no : Overwritten::yes;
}

const std::string& RegularFile::path_to_reopen() const { return absolute_.empty() ? path_ : absolute_; }

Descriptor RegularFile::reopen(int extra_flags) const {
  if (!descriptor_) return reopen_path(extra_flags);
  Descriptor opened = io::reopen(descriptor(), kOpenFlags | extra_flags);
  if (!opened && path_.empty()) fail_os(Status::read, errno, "{} cannot be reopened", shown());
  return opened ? std::move(opened) : reopen_path(extra_flags);
}

Descriptor RegularFile::reopen_path(int extra_flags) const {
  const std::string& path = path_to_reopen();
  struct stat status {};
  if (fstatat(AT_FDCWD, path.c_str(), &status, 0) != 0) fail_os(Status::read, errno, "{} cannot be reopened", shown());
  require_same(status);  // before open(): it may be a device by now; and after: it may have changed again
  Descriptor opened = open_regular(AT_FDCWD, path.c_str(), kOpenFlags | extra_flags);
  if (!opened || fstat(opened.get(), &status) != 0) {
    fail_os(Status::read, errno, "{} cannot be reopened", shown());
  }
  require_same(status);
  return opened;
}

void RegularFile::read_at(std::uint64_t offset, void* dst, std::size_t n) const {
  if (descriptor_) return read_from(descriptor(), offset, dst, n);
  const Descriptor opened = reopen(0);
  read_from(opened.get(), offset, dst, n);
}

void RegularFile::read_from(int descriptor, std::uint64_t offset, void* dst, std::size_t n) const {
  auto* at = static_cast<char*>(dst);
  while (n > 0) {
    const ssize_t got = pread(descriptor, at, std::min(n, kMostInOneCall), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      throw Error{Status::read, errno, offset,
                  formatted("{}: reading {} bytes at {}: {}", shown(), n, offset, os_error_text(errno))};
    }
    if (got == 0) {
      fail_at(Status::truncated, offset, "{} has no byte {}: it has become shorter since it was opened", shown(),
              offset);
    }
    at += got;
    offset += static_cast<std::uint64_t>(got);
    n -= static_cast<std::size_t>(got);
  }
}

// ---- writing -------------------------------------------------------------------------------------------------------

NoWriteSignals::NoWriteSignals() {
  sigset_t both;
  sigemptyset(&both);
  for (const int number : kSignals) sigaddset(&both, number);
  sigpending(&pending_);
  pthread_sigmask(SIG_BLOCK, &both, &before_);
}

NoWriteSignals::~NoWriteSignals() {
  for (const int number : kSignals) {
    if (sigismember(&pending_, number) != 1) take_pending_signal(number);
  }
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

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
    const ssize_t written = write(descriptor, at, std::min(n, kMostInOneCall));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno == EAGAIN) {  // the caller's pipe is non-blocking
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

// Retries an interrupted sync, but never a failed one.
int sync_now(int descriptor) {
#if defined(F_FULLFSYNC)  // macOS: fsync() leaves the bytes in the disk's cache. Not every filesystem supports this.
  for (;;) {
    if (fcntl(descriptor, F_FULLFSYNC) == 0) return 0;
    if (errno == ENOTSUP || errno == EOPNOTSUPP || errno == EINVAL || errno == ENOTTY || errno == EBADF) break;
    if (errno != EINTR) return errno;
  }
#endif
  while (fsync(descriptor) != 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

int sync_directory_now(int directory) {
  const int error = sync_now(directory);
  return error == EINVAL ? 0 : error;
}

}  // namespace st::io
