// SPDX-License-Identifier: Apache-2.0
#include "io/posix/target.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>

#include "base/error.hpp"
#include "io/posix/mount.hpp"
#include "io/posix/replaceable.hpp"

namespace st::io {

namespace {

constexpr int kMostLinks = 40;  // as the kernel

// Opening these again would give a second place in a redirected file, at its beginning: `>>` would overwrite.
bool is_descriptor(std::string_view path, std::string& number) {
  number.clear();
  if (path == "/dev/stdin") number = '0';  // a character: of a string g++ 12 warns, at -O3, that it overlaps
  if (path == "/dev/stdout") number = '1';
  if (path == "/dev/stderr") number = '2';
  for (const std::string_view folder : {"/dev/fd/", "/proc/self/fd/", "/proc/thread-self/fd/"}) {
    if (path.starts_with(folder)) number = path.substr(folder.size());
  }
  return !number.empty() && number.size() <= 7 && number.find_first_not_of("0123456789") == std::string::npos;
}

// One step: the folder of `path`, seen from `target.folder`, and the name in it.
void step(Target& target, const std::string& path) {
  const std::size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  target.name = slash == std::string::npos ? path : path.substr(slash + 1);
  if (target.name.empty() || target.name == "." || target.name == "..") {
    fail_os(Status::open, path.empty() ? ENOENT : EISDIR, "{}", target.shown);
  }
  const int from = target.folder ? target.folder.get() : AT_FDCWD;
  Descriptor next = open_folder_for_lookup(from, folder.c_str());
  if (!next) fail_os(Status::open, errno, "{}", target.shown);
  target.folder = std::move(next);
}

// Who else can write to a directory, by the kernel's rules for links and for files and FIFOs.
constexpr mode_t kForLinks = S_IWOTH;
constexpr mode_t kForFiles = S_IWOTH | S_IWGRP;

bool is_foreign(const struct stat& folder, mode_t writers, uid_t owner) {
  const bool shared = (folder.st_mode & S_ISVTX) != 0 && (folder.st_mode & writers) != 0;
  return shared && owner != geteuid() && owner != folder.st_uid;
}

std::string read_link(const Target& target) {
  struct stat folder {};
  SymbolicLink link;
  const int error = read_link(target.folder.get(), target.name, link);
  if (error != 0) fail_os(Status::open, error, "{}", target.shown);
  if (fstat(target.folder.get(), &folder) != 0) fail_os(Status::open, errno, "{}", target.shown);
  // /proc/PID/fd/N in any spelling, such as N in /dev/fd: what it leads to is an open file, whatever its text says.
  if (mount_kind(target.folder.get(), folder) == MountKind::kernel) {
    fail(Status::open, "{} is an open descriptor: write to its file by the file's path", target.shown);
  }
  if (is_foreign(folder, kForLinks, link.status.st_uid)) {
    fail_os(Status::open, EACCES, "{}: a symbolic link of user {} in a folder that all may write to", target.shown,
            link.status.st_uid);
  }
  return link.text;
}

Target::Kind kind_of(const Target& target) {
  const mode_t mode = target.status.st_mode;
  if (S_ISREG(mode)) return Target::Kind::regular;
  if (S_ISFIFO(mode) || S_ISCHR(mode) || S_ISBLK(mode)) return Target::Kind::stream;
  if (S_ISDIR(mode)) fail_os(Status::open, EISDIR, "{}", target.shown);
  fail(Status::open, "{} is a socket, which cannot be written as a file", target.shown);
}

bool is_same_stream(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino && (a.st_mode & S_IFMT) == (b.st_mode & S_IFMT);
}

// Where the question itself is refused (a sandbox), opening for writing asks it too. 0 or the errno.
int write_error(const Target& target) {
  if (faccessat(target.folder.get(), target.name.c_str(), W_OK, AT_EACCESS) == 0) return 0;
  if (errno != EPERM && errno != ENOSYS) return errno;
  const bool opened(open_file(target.folder.get(), target.name.c_str(), O_WRONLY | O_NOFOLLOW | O_NONBLOCK));
  return opened || errno == EAGAIN ? 0 : errno;  // EAGAIN: the right is there, and another process has a lease
}

bool is_held_by_sticky_folder(const Target& target) {
  struct stat folder {};
  if (fstat(target.folder.get(), &folder) != 0 || (folder.st_mode & S_ISVTX) == 0) return false;
  const uid_t self = geteuid();
  return target.status.st_uid != self && folder.st_uid != self && !may_rename_others_files();
}

// What follows the bytes that are written would stay behind them: the rest of an older, longer file.
void require_at_end(int file, const std::string& shown) {
  struct stat status {};
  if (fstat(file, &status) != 0 || !S_ISREG(status.st_mode) || (fcntl(file, F_GETFL) & O_APPEND) != 0) return;
  const off_t position = lseek(file, 0, SEEK_CUR);
  if (position >= status.st_size) return;
  fail(Status::open, "{} is at byte {} of a file of {} bytes, whose rest would stay: truncate it, or write to its path",
       shown, position, status.st_size);
}

}  // namespace

Target find_target(const char* path) {
  Target target;
  target.shown = in_quotes(path);
  std::string rest = path;
  for (int links = 0; links <= kMostLinks; ++links) {
    if (is_descriptor(rest, target.name)) {
      target.kind = Target::Kind::descriptor;
      return target;
    }
    step(target, rest);
    if (fstatat(target.folder.get(), target.name.c_str(), &target.status, AT_SYMLINK_NOFOLLOW) != 0) {
      if (errno != ENOENT) fail_os(Status::open, errno, "{}", target.shown);
      return target;
    }
    if (!S_ISLNK(target.status.st_mode)) {
      target.kind = kind_of(target);
      return target;
    }
    target.through_link = true;
    rest = read_link(target);
  }
  fail_os(Status::open, ELOOP, "{}", target.shown);
}

void require_own(const Target& target, uid_t owner) {
  struct stat folder {};
  if (fstat(target.folder.get(), &folder) != 0) fail_os(Status::open, errno, "{}", target.shown);
  if (is_foreign(folder, kForFiles, owner)) {
    fail_os(Status::open, EACCES, "{}: a file of user {} in a sticky folder that others may write to", target.shown,
            owner);
  }
}

void require_replaceable(const Target& target) {
  require_own(target, target.status.st_uid);
  if (const int error = write_error(target); error != 0) fail_os(Status::open, error, "{}", target.shown);
  if (is_held_by_sticky_folder(target)) {
    fail_os(Status::open, EPERM, "{}: a file of user {} in a sticky folder", target.shown, target.status.st_uid);
  }
  switch (hold_of(target.folder.get(), target.name)) {
    case Hold::none: return;
    case Hold::mount_point:
      fail_os(Status::open, EBUSY, "{}: a mount point, which no other file can take the place of", target.shown);
    case Hold::append_only: fail_os(Status::open, EPERM, "{}: a file that can only be appended to", target.shown);
  }
}

Descriptor open_stream(const Target& target) {
  if (target.kind == Target::Kind::descriptor) {
    Descriptor copy = duplicate(std::stoi(target.name));
    if (!copy) fail_os(Status::open, errno, "{}", target.shown);
    require_at_end(copy.get(), target.shown);
    return copy;
  }
  if (S_ISFIFO(target.status.st_mode)) require_own(target, target.status.st_uid);
  Descriptor opened = open_file(target.folder.get(), target.name.c_str(), O_WRONLY | O_NOFOLLOW | O_NOCTTY);
  struct stat status {};
  if (!opened || fstat(opened.get(), &status) != 0) fail_os(Status::open, errno, "{}", target.shown);
  if (!is_same_stream(status, target.status)) {
    fail(Status::open, "{} is no longer what it was a moment ago", target.shown);
  }
  return opened;
}

}  // namespace st::io
