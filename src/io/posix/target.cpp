// Targets and access on POSIX systems.
// SPDX-License-Identifier: Apache-2.0
#include "io/posix/target.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>

#include "base/error.hpp"
#include "base/text.hpp"

namespace st::io {

namespace {

// ---- targets -------------------------------------------------------------------------------------------------------

constexpr int kMostLinks = 40;  // same as the kernel's limit

// Paths of open descriptors are not reopened: reopening a redirected file would start at its beginning, so `>>` would
// overwrite it.
bool is_descriptor(std::string_view path, std::string& number) {
  number.clear();
  if (path == "/dev/stdin") number = '0';  // as a character: for a string, g++ 12 at -O3 warns about an overlap
  if (path == "/dev/stdout") number = '1';
  if (path == "/dev/stderr") number = '2';
  for (const std::string_view directory : {"/dev/fd/", "/proc/self/fd/", "/proc/thread-self/fd/"}) {
    if (starts_with(path, directory)) number = path.substr(directory.size());
  }
  const bool leading_zero = number.size() > 1 && number[0] == '0';  // such a name does not exist
  return !number.empty() && !leading_zero && number.size() <= 7 &&
         number.find_first_not_of("0123456789") == std::string::npos;
}

// Opens the directory of `path`, relative to `target.directory`, and sets the name in it.
void step(Target& target, const std::string& path) {
  const std::size_t slash = path.rfind('/');
  const std::string directory = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  target.name = slash == std::string::npos ? path : path.substr(slash + 1);
  if (target.name.empty()) fail_os(Status::open, path.empty() ? ENOENT : EISDIR, "{}", target.shown);
  const int from = target.directory ? target.directory.get() : AT_FDCWD;
  Descriptor next = open_directory_for_lookup(from, directory.c_str());
  if (!next) fail_os(Status::open, errno, "{}", target.shown);
  target.directory = std::move(next);
}

// The mode bits that make a directory shared: the kernel has one rule for links, and another for files and FIFOs.
constexpr mode_t kForLinks = S_IWOTH;
constexpr mode_t kForFiles = S_IWOTH | S_IWGRP;

bool is_foreign(const struct stat& directory, mode_t writers, uid_t owner) {
  const bool shared = (directory.st_mode & S_ISVTX) != 0 && (directory.st_mode & writers) != 0;
  const bool of_directory = owner == directory.st_uid && !is_unmapped(owner);
  return shared && owner != geteuid() && !of_directory;
}

std::string read_link(const Target& target) {
  struct stat directory {};
  SymbolicLink link;
  const int error = read_link(target.directory.get(), target.name, link);
  if (error != 0) {
    const char* const why = error == EAGAIN ? " was replaced while it was being opened" : "";
    fail_os(Status::open, error, "{}{}", target.shown, why);
  }
  if (fstat(target.directory.get(), &directory) != 0) fail_os(Status::open, errno, "{}", target.shown);
  // /proc/PID/fd/N in any spelling, such as /dev/fd/N. It leads to an open file, whose path may have changed.
  if (mount_kind(target.directory.get(), directory) == MountKind::kernel) {
    fail(Status::open, "{} is an open descriptor: use the path of its file instead", target.shown);
  }
  if (is_foreign(directory, kForLinks, link.status.st_uid)) {
    fail_os(Status::open, EACCES, "{}: a symbolic link of user {} in a sticky, world-writable directory", target.shown,
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

// Returns 0 if the file may be written to, otherwise the errno. If faccessat() itself is refused (a sandbox), tries to
// open the file for writing.
int write_error(const Target& target) {
  if (faccessat(target.directory.get(), target.name.c_str(), W_OK, AT_EACCESS) == 0) return 0;
  if (errno != EPERM && errno != ENOSYS) return errno;
  const bool opened(open_file(target.directory.get(), target.name.c_str(), O_WRONLY | O_NOFOLLOW | O_NONBLOCK));
  return opened || errno == EAGAIN ? 0 : errno;  // EAGAIN: permitted, but another process holds a lease
}

bool is_held_by_sticky_directory(const Target& target) {
  struct stat directory {};
  if (fstat(target.directory.get(), &directory) != 0 || (directory.st_mode & S_ISVTX) == 0) return false;
  const uid_t self = geteuid();
  return target.status.st_uid != self && directory.st_uid != self && !may_rename_others_files();
}

// Throws unless the position is at the end of the file. Otherwise the rest of an older, longer file would follow the
// new bytes.
void require_at_end(int file, const std::string& shown) {
  struct stat status {};
  if (fstat(file, &status) != 0 || !S_ISREG(status.st_mode) || (fcntl(file, F_GETFL) & O_APPEND) != 0) return;
  const off_t position = lseek(file, 0, SEEK_CUR);
  if (position >= status.st_size) return;
  fail(
      Status::open,
      "{} is at byte {} of a file of {} bytes, so old bytes would remain at the end: truncate it, or write to its path",
      shown, position, status.st_size);
}

// ---- access --------------------------------------------------------------------------------------------------------

constexpr mode_t kModeBits = 07777;
constexpr int kMostLooks = 3;  // while another process changes the file's access rights

// Returns nullopt only if the file is missing, and throws any other error: otherwise the new file would get its mode
// from the umask.
std::optional<struct stat> look_at(int directory, const std::string& name) {
  struct stat status {};
  if (fstatat(directory, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0) return status;
  if (errno != ENOENT) fail_os(Status::open, errno, "the access rights of {}", in_quotes(name));
  return std::nullopt;
}

bool is_same_access(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino && a.st_mode == b.st_mode && a.st_uid == b.st_uid &&
         a.st_gid == b.st_gid;
}

// Sets owner and group, or only the group, if permitted. Never sets the overflow ID, which stands for all unmapped
// users: it may also be the number of a user or group of the container.
void give_owner(int file, const Access& access) {
  if (is_unmapped(access.group)) return;
  if (!is_unmapped(access.owner) && fchown(file, access.owner, access.group) == 0) return;
  // A cast to void does not silence g++ where the host defines _FORTIFY_SOURCE.
  [[maybe_unused]] const int ignored = fchown(file, static_cast<uid_t>(-1), access.group);
}

}  // namespace

// ---- targets -------------------------------------------------------------------------------------------------------

Target find_target(const char* path, bool replace_link) {
  Target target;
  target.shown = in_quotes(path);
  std::string rest = path;
  for (int links = 0; links <= kMostLinks; ++links) {
    if (is_descriptor(rest, target.name)) {
      target.kind = Target::Kind::descriptor;
      return target;
    }
    step(target, rest);
    if (fstatat(target.directory.get(), target.name.c_str(), &target.status, AT_SYMLINK_NOFOLLOW) != 0) {
      if (errno != ENOENT) fail_os(Status::open, errno, "{}", target.shown);
      return target;
    }
    if (!S_ISLNK(target.status.st_mode)) {
      target.kind = kind_of(target);
      return target;
    }
    target.through_link = true;
    rest = read_link(target);
    std::string number;
    if (replace_link && !is_descriptor(rest, number)) {
      target.kind = Target::Kind::link;
      return target;
    }
  }
  fail_os(Status::open, ELOOP, "{}", target.shown);
}

void require_own(const Target& target, uid_t owner) {
  struct stat directory {};
  if (fstat(target.directory.get(), &directory) != 0) fail_os(Status::open, errno, "{}", target.shown);
  if (is_foreign(directory, kForFiles, owner)) {
    fail_os(Status::open, EACCES, "{}: belongs to user {}, in a sticky directory that others may write to",
            target.shown, owner);
  }
}

void require_replaceable(const Target& target) {
  require_own(target, target.status.st_uid);
  const int error = target.kind == Target::Kind::link ? 0 : write_error(target);
  if (error == ENOENT) return;  // just removed, so its name is free
  if (error != 0) fail_os(Status::open, error, "{}", target.shown);
  if (is_held_by_sticky_directory(target)) {
    fail_os(Status::open, EPERM, "{}: belongs to user {}, in a sticky directory", target.shown, target.status.st_uid);
  }
  switch (hold_of(target.directory.get(), target.name)) {
    case Hold::none: break;
    case Hold::mount_point: fail_os(Status::open, EBUSY, "{}: a mount point, which cannot be replaced", target.shown);
    case Hold::append_only: fail_os(Status::open, EPERM, "{}: an append-only file", target.shown);
  }
}

void require_no_append_only(const Target& target) {
  if (hold_of(target.directory.get(), ".") == Hold::append_only) {
    fail_os(Status::open, EPERM, "{}: in an append-only or immutable directory", target.shown);
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
  Descriptor opened = open_file(target.directory.get(), target.name.c_str(), O_WRONLY | O_NOFOLLOW | O_NOCTTY);
  struct stat status {};
  if (!opened || fstat(opened.get(), &status) != 0) fail_os(Status::open, errno, "{}", target.shown);
  if (!is_same_stream(status, target.status)) {
    fail(Status::open, "{} was replaced while it was being opened", target.shown);
  }
  return opened;
}

// ---- access --------------------------------------------------------------------------------------------------------

std::optional<Access> access_of(int directory, const std::string& name) {
  Access access;
  for (int look = 0; look < kMostLooks; ++look) {
    const auto before = look_at(directory, name);
    if (!before || !S_ISREG(before->st_mode)) return std::nullopt;
    access.owner = before->st_uid;
    access.group = before->st_gid;
    access.mode = before->st_mode & 0777;
    access.attributes = attributes_of(directory, name);
    const auto after = look_at(directory, name);
    if (after && is_same_access(*before, *after)) return access;
  }
  access.attributes.lists_known = false;
  return access;
}

int give_access(int file, const Access& access) {
  struct stat now {};
  if (fstat(file, &now) != 0) return errno;
  if (now.st_uid != access.owner || now.st_gid != access.group) give_owner(file, access);
  if (fstat(file, &now) != 0) return errno;  // some servers accept a new owner but do not change it
  const bool group_given = now.st_gid == access.group && !is_unmapped(access.group);
  const auto& [lists, others, lists_known] = access.attributes;
  give_others(file, others);
  mode_t mode = access.mode;
  const bool lists_given = lists_known && (group_given || lists.empty()) && give_lists(file, lists);
  if (!lists_given) {
    give_lists(file, {});
    mode &= 0700;
  } else if (!group_given) {
    // The new file has another group. Members of the old group now have only the rights of others.
    const mode_t both = (mode >> 3) & mode & 0007;
    mode = static_cast<mode_t>((mode & 0700) | both << 3 | both);  // mode_t has 16 bits on macOS
  }
  if (fstat(file, &now) != 0) return errno;
  if ((now.st_mode & kModeBits) == mode) return 0;
  return fchmod(file, mode) == 0 ? 0 : errno;
}

}  // namespace st::io
