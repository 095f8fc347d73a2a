// SPDX-License-Identifier: Apache-2.0
#include "io/posix/plain_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <string_view>
#include <thread>
#include <utility>

#include "base/error.hpp"
#include "io/posix/direct_read.hpp"
#include "io/posix/identity.hpp"
#include "io/posix/mount.hpp"
#include "io/posix/open_again.hpp"

namespace st::io {

namespace {

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
  fail(Status::open, "{} is {}, not a file of tensors", shown, kind_of(mode));
}

// If the path is replaced after fstatat(), O_NONBLOCK keeps open() from blocking, and fstat() finds it.
Descriptor look_and_open(int folder, const char* path, int extra_flags, std::string_view whole_path) {
  const int no_links = (extra_flags & O_NOFOLLOW) != 0 ? AT_SYMLINK_NOFOLLOW : 0;
  struct stat status {};
  if (fstatat(folder, path, &status, no_links) != 0) fail_os(Status::open, errno, "{}", in_quotes(whole_path));
  if (is_special(status.st_mode)) fail_special(status.st_mode, in_quotes(whole_path));
  Descriptor opened = open_regular(folder, path, kOpenFlags | extra_flags);
  if (!opened) fail_os(Status::open, errno, "{}", in_quotes(whole_path));
  return opened;
}

std::string absolute(const char* path) {
  if (path[0] == '/') return path;
  std::array<char, PATH_MAX> folder{};
  if (getcwd(folder.data(), folder.size()) == nullptr) return path;
  return std::string(folder.data()) + "/" + path;
}

}  // namespace

// The first refusal has already asked the holder to give the lease up. There is no signal when it has.
Descriptor open_regular(int folder, const char* path, int flags, std::chrono::seconds patience) {
  const auto end = std::chrono::steady_clock::now() + patience;
  for (;;) {
    Descriptor opened = open_file(folder, path, flags | O_NONBLOCK);
    if (opened || errno != EAGAIN || std::chrono::steady_clock::now() > end) return opened;
    std::this_thread::sleep_for(kLeasePause);
  }
}

std::optional<PlainFile> PlainFile::try_adopt(Descriptor descriptor, std::string path) {
  PlainFile file;
  file.descriptor_ = std::move(descriptor);
  file.path_ = std::move(path);
  struct stat status {};
  if (fstat(file.descriptor(), &status) != 0) fail_os(Status::open, errno, "{}", file.shown());
  if (S_ISDIR(status.st_mode)) return std::nullopt;
  if (is_special(status.st_mode)) fail_special(status.st_mode, file.shown());
  const MountKind mount = mount_kind(file.descriptor(), status);
  if (mount == MountKind::kernel) fail(Status::open, "{} is made by the kernel, not a file of tensors", file.shown());
  file.remote_ = mount == MountKind::remote;
  file.identity_ = identity_of(status);
  file.size_ = file.identity_.size;
  return file;
}

PlainFile PlainFile::adopt(Descriptor descriptor, std::string path) {
  const std::string shown = path;
  std::optional<PlainFile> file = try_adopt(std::move(descriptor), std::move(path));
  if (!file) fail(Status::open, "{} is a folder, not a file of tensors", in_quotes(shown));
  return std::move(*file);
}

std::optional<PlainFile> PlainFile::open_unless_folder(const char* path) {
  return try_adopt(look_and_open(AT_FDCWD, path, 0, path), path);
}

PlainFile PlainFile::open(const char* path) {
  std::optional<PlainFile> file = open_unless_folder(path);
  if (!file) fail(Status::open, "{} is a folder, not a file of tensors", in_quotes(path));
  return std::move(*file);
}

PlainFile PlainFile::open_at(int folder, const char* name, std::string path, bool may_be_link) {
  Descriptor opened = look_and_open(folder, name, may_be_link ? 0 : O_NOFOLLOW, path);
  return adopt(std::move(opened), std::move(path));
}

PlainFile PlainFile::duplicate(std::intptr_t descriptor) {
  const bool possible = descriptor >= 0 && descriptor <= INT_MAX;
  Descriptor copy = possible ? io::duplicate(static_cast<int>(descriptor)) : Descriptor();
  if (!copy) fail_os(Status::open, possible ? errno : EBADF, "descriptor {}", descriptor);
  // Our reads begin and end anywhere, which one for direct reads refuses. Its flags are the caller's to change.
  if (direct_flag() != 0 && (fcntl(copy.get(), F_GETFL) & direct_flag()) != 0) {
    copy = open_again(copy.get(), kOpenFlags);
    if (!copy) fail_os(Status::open, errno, "descriptor {} with O_DIRECT cannot be opened without", descriptor);
  }
  return adopt(std::move(copy), {});
}

void PlainFile::advise(std::uint64_t offset, std::uint64_t n, Advice advice) const {
  if (!descriptor_ || n == 0) return;  // to the system, no bytes are all up to the end of the file
#if defined(POSIX_FADV_WILLNEED)       // an option of POSIX
  posix_fadvise(descriptor(), static_cast<off_t>(offset), static_cast<off_t>(n),
                advice == Advice::will_need ? POSIX_FADV_WILLNEED : POSIX_FADV_DONTNEED);
#else
  static_cast<void>(offset), static_cast<void>(n), static_cast<void>(advice);
#endif
}

void PlainFile::release_descriptor(bool mapped) {
  if (!descriptor_ || path_.empty()) return;
  absolute_ = absolute(path_.c_str());
  int refused = 0;
  if (!mapped) pin_ = Mapping::of(descriptor(), 0, 1, MapKind::read_only, refused);
  inode_in_use_ = mapped || pin_.data() != nullptr;
  descriptor_.close();
}

std::string PlainFile::shown() const { return path_.empty() ? "the descriptor's file" : in_quotes(path_); }

void PlainFile::require_same(const struct stat& status) const {
  const Identity now = identity_of(status);
  const bool same = inode_in_use_ && !remote_ ? now.same_file(identity_) : now == identity_;
  if (!same) fail(Status::read, "{} is no longer the file that was opened", shown());
}

bool PlainFile::is_intact() const {
  struct stat status {};
  if (fstat(descriptor(), &status) != 0) return false;
  const Identity now = identity_of(status);
  return now.same_file(identity_) && now.size >= size_;
}

Descriptor PlainFile::reopen(int extra_flags) const {
  if (!descriptor_) return reopen_path(extra_flags);
  Descriptor opened = open_again(descriptor(), kOpenFlags | extra_flags);
  if (!opened && path_.empty()) fail_os(Status::read, errno, "{} cannot be opened again", shown());
  return opened ? std::move(opened) : reopen_path(extra_flags);
}

Descriptor PlainFile::reopen_path(int extra_flags) const {
  const std::string& path = absolute_.empty() ? path_ : absolute_;
  struct stat status {};
  if (fstatat(AT_FDCWD, path.c_str(), &status, 0) != 0)
    fail_os(Status::read, errno, "{} cannot be opened again", shown());
  require_same(status);  // before it is opened, for it may be a device by now; and after, for it may have changed again
  Descriptor opened = open_regular(AT_FDCWD, path.c_str(), kOpenFlags | extra_flags);
  if (!opened || fstat(opened.get(), &status) != 0) {
    fail_os(Status::read, errno, "{} cannot be opened again", shown());
  }
  require_same(status);
  return opened;
}

void PlainFile::read_at(std::uint64_t offset, void* dst, std::size_t n) const {
  if (descriptor_) return read_from(descriptor(), offset, dst, n);
  const Descriptor opened = reopen(0);
  read_from(opened.get(), offset, dst, n);
}

void PlainFile::read_from(int descriptor, std::uint64_t offset, void* dst, std::size_t n) const {
  constexpr std::size_t kMostAtOnce = std::size_t{1} << 30;  // Linux stops a little below 2 GiB
  auto* at = static_cast<char*>(dst);
  while (n > 0) {
    const ssize_t got = pread(descriptor, at, std::min(n, kMostAtOnce), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      throw Error{Status::read, errno, offset,
                  formatted("{}: reading {} bytes at {}: {}", shown(), n, offset, os_error_text(errno))};
    }
    if (got == 0) {
      fail_at(Status::truncated, offset, "{} ends at byte {}: it has become shorter since it was opened", shown(),
              offset);
    }
    at += got;
    offset += static_cast<std::uint64_t>(got);
    n -= static_cast<std::size_t>(got);
  }
}

}  // namespace st::io
