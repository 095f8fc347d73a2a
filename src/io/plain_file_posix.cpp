// SPDX-License-Identifier: Apache-2.0
#include "io/plain_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <utility>

#include "base/error.hpp"

namespace st::io {

namespace {

// O_NONBLOCK: opening a FIFO or a device must not wait for its other end. Regular files ignore it.
constexpr int kOpenFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;

enum class MountKind : std::uint8_t { local, remote, kernel };

// Facts of linux/magic.h and of the filesystems' own headers.
constexpr std::array<std::uint32_t, 5> kKernelMounts{0x9FA0, 0x62656572, 0x64626720, 0x74726163, 0x63677270};
constexpr std::array<std::uint32_t, 11> kRemoteMounts{
    0x6969,      // NFS
    0x517B,      // SMB
    0xFE534D42,  // SMB2
    0xFF534D42,  // CIFS
    0x65735546,  // FUSE
    0x01021997,  // 9P
    0x00C36400,  // Ceph
    0x0BD00BD0,  // Lustre
    0x47504653,  // GPFS
    0x5346414F,  // AFS
    0x19830326,  // BeeGFS
};

MountKind mount_kind(int descriptor, dev_t device) {
  if (major(device) != 0) return MountKind::local;  // a real disk; the rest share major number 0
  struct statfs mount {};
  if (fstatfs(descriptor, &mount) != 0) return MountKind::local;
  const auto type = static_cast<std::uint32_t>(mount.f_type);
  if (std::find(kKernelMounts.begin(), kKernelMounts.end(), type) != kKernelMounts.end()) return MountKind::kernel;
  const bool remote = std::find(kRemoteMounts.begin(), kRemoteMounts.end(), type) != kRemoteMounts.end();
  return remote ? MountKind::remote : MountKind::local;
}

const char* kind_of(mode_t mode) {
  if (S_ISFIFO(mode)) return "a named pipe";
  if (S_ISSOCK(mode)) return "a socket";
  if (S_ISCHR(mode)) return "a character device";
  if (S_ISBLK(mode)) return "a block device";
  return "not a regular file";
}

std::string absolute(const char* path) {
  if (path[0] == '/') return path;
  std::array<char, PATH_MAX> folder{};
  if (getcwd(folder.data(), folder.size()) == nullptr) return path;
  return std::string(folder.data()) + "/" + path;
}

}  // namespace

std::optional<PlainFile> PlainFile::try_adopt(int descriptor, std::string path, std::string absolute_path) {
  PlainFile file;
  file.descriptor_ = descriptor;
  file.path_ = std::move(path);
  file.absolute_ = std::move(absolute_path);
  struct stat status {};
  if (fstat(descriptor, &status) != 0) fail_os(Status::open, errno, "{}", file.shown());
  if (S_ISDIR(status.st_mode)) return std::nullopt;
  if (!S_ISREG(status.st_mode))
    fail(Status::open, "{} is {}, not a file of tensors", file.shown(), kind_of(status.st_mode));
  const MountKind mount = mount_kind(descriptor, status.st_dev);
  if (mount == MountKind::kernel) fail(Status::open, "{} is made by the kernel, not a file of tensors", file.shown());
  file.remote_ = mount == MountKind::remote;
  file.size_ = static_cast<std::uint64_t>(status.st_size);
  file.device_ = status.st_dev;
  file.inode_ = status.st_ino;
  return file;
}

PlainFile PlainFile::adopt(int descriptor, std::string path, std::string absolute_path) {
  std::string shown = path;
  std::optional<PlainFile> file = try_adopt(descriptor, std::move(path), std::move(absolute_path));
  if (!file) fail(Status::open, "{} is a folder, not a file of tensors", quoted(shown));
  return std::move(*file);
}

std::optional<PlainFile> PlainFile::open_unless_folder(const char* path) {
  const int descriptor = ::open(path, kOpenFlags);
  if (descriptor < 0) fail_os(Status::open, errno, "{}", quoted(path));
  return try_adopt(descriptor, path, absolute(path));
}

PlainFile PlainFile::open(const char* path) {
  std::optional<PlainFile> file = open_unless_folder(path);
  if (!file) fail(Status::open, "{} is a folder, not a file of tensors", quoted(path));
  return std::move(*file);
}

PlainFile PlainFile::open_at(int folder, const char* name, std::string path, bool may_be_link) {
  const int descriptor = ::openat(folder, name, kOpenFlags | (may_be_link ? 0 : O_NOFOLLOW));
  if (descriptor < 0) fail_os(Status::open, errno, "{}", quoted(path));
  std::string whole = absolute(path.c_str());
  return adopt(descriptor, std::move(path), std::move(whole));
}

PlainFile PlainFile::duplicate(std::intptr_t descriptor) {
  const int copy = fcntl(static_cast<int>(descriptor), F_DUPFD_CLOEXEC, 0);
  if (copy < 0) fail_os(Status::open, errno, "descriptor {}", descriptor);
  return adopt(copy, {}, {});
}

PlainFile::PlainFile(PlainFile&& other) noexcept { *this = std::move(other); }

PlainFile& PlainFile::operator=(PlainFile&& other) noexcept {
  if (this == &other) return *this;
  if (descriptor_ >= 0) ::close(descriptor_);
  descriptor_ = std::exchange(other.descriptor_, -1);
  path_ = std::move(other.path_);
  absolute_ = std::move(other.absolute_);
  size_ = other.size_;
  device_ = other.device_;
  inode_ = other.inode_;
  remote_ = other.remote_;
  return *this;
}

PlainFile::~PlainFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void PlainFile::advise(std::uint64_t offset, std::uint64_t n, Advice advice) const {
  if (descriptor_ < 0) return;
  posix_fadvise(descriptor_, static_cast<off_t>(offset), static_cast<off_t>(n),
                advice == Advice::will_need ? POSIX_FADV_WILLNEED : POSIX_FADV_DONTNEED);
}

void PlainFile::rest() {
  if (descriptor_ < 0 || absolute_.empty()) return;
  ::close(std::exchange(descriptor_, -1));
}

std::string PlainFile::shown() const { return path_.empty() ? "the descriptor's file" : quoted(path_); }

int PlainFile::reopen(int extra_flags) const {
  // A duplicated descriptor has no path of ours, but the kernel knows one that opens the file anew.
  const std::string path = absolute_.empty() ? fmt::format("/proc/self/fd/{}", descriptor_) : absolute_;
  const int descriptor = ::open(path.c_str(), kOpenFlags | extra_flags);
  if (descriptor < 0) fail_os(Status::read, errno, "{} cannot be opened again", shown());
  struct stat status {};
  if (fstat(descriptor, &status) != 0 || status.st_dev != device_ || status.st_ino != inode_) {
    ::close(descriptor);
    fail(Status::read, "{} is no longer the file that was opened", shown());
  }
  return descriptor;
}

void PlainFile::read_at(std::uint64_t offset, void* dst, std::size_t n) const {
  if (descriptor_ >= 0) return read_from(descriptor_, offset, dst, n);
  // closes what was opened for this one read
  struct Closing {
    int descriptor;
    ~Closing() { ::close(descriptor); }
  } const opened{reopen(0)};
  read_from(opened.descriptor, offset, dst, n);
}

void PlainFile::read_from(int descriptor, std::uint64_t offset, void* dst, std::size_t n) const {
  constexpr std::size_t kMostAtOnce = std::size_t{1} << 30;  // Linux stops a little below 2 GiB
  auto* at = static_cast<char*>(dst);
  while (n > 0) {
    const ssize_t got = pread(descriptor, at, std::min(n, kMostAtOnce), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      throw Error{Status::read, errno, offset,
                  fmt::format("{}: reading {} bytes at {}: {}", shown(), n, offset, os_error_text(errno))};
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
