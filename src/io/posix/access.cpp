// SPDX-License-Identifier: Apache-2.0
#include "io/posix/access.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <optional>

#include "base/error.hpp"

namespace st::io {

namespace {

constexpr mode_t kModeBits = 07777;
constexpr int kMostLooks = 3;  // at a file whose access others are changing

// Only a missing file has no access. Any other error must not end in the access that the umask leaves.
std::optional<struct stat> look_at(int folder, const std::string& name) {
  struct stat status {};
  if (fstatat(folder, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0) return status;
  if (errno != ENOENT) fail_os(Status::open, errno, "the access of {}", in_quotes(name));
  return std::nullopt;
}

bool is_same_access(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino && a.st_mode == b.st_mode && a.st_uid == b.st_uid &&
         a.st_gid == b.st_gid;
}

// Without the right to change the owner, the owner stays. Returns false if the group could not be set either.
bool give_owner(int file, const struct stat& now, const Access& access) {
  if (now.st_uid == access.owner && now.st_gid == access.group) return true;
  if (fchown(file, access.owner, access.group) == 0) return true;
  return now.st_gid == access.group || fchown(file, static_cast<uid_t>(-1), access.group) == 0;
}

}  // namespace

std::optional<Access> access_of(int folder, const std::string& name) {
  Access access;
  for (int look = 0; look < kMostLooks; ++look) {
    const auto before = look_at(folder, name);
    if (!before || !S_ISREG(before->st_mode)) return std::nullopt;
    access.owner = before->st_uid;
    access.group = before->st_gid;
    access.mode = before->st_mode & 0777;
    access.attributes = attributes_of(folder, name);
    const auto after = look_at(folder, name);
    if (after && is_same_access(*before, *after)) return access;
  }
  access.attributes.lists_known = false;
  return access;
}

int give_access(int file, const Access& access) {
  struct stat now {};
  if (fstat(file, &now) != 0) return errno;
  const auto& [lists, others, lists_known] = access.attributes;
  const bool group_given = give_owner(file, now, access);
  give_others(file, others);
  mode_t mode = access.mode;
  const bool lists_given = lists_known && (group_given || lists.empty()) && give_lists(file, lists);
  if (!lists_given) {
    give_lists(file, {});
    mode &= 0700;
  } else if (!group_given) {
    // The file's group is another one, and who was in the old one is among all others now.
    const mode_t both = (mode >> 3) & mode & 0007;
    mode = (mode & 0700) | both << 3 | both;
  }
  if (fstat(file, &now) != 0) return errno;
  if ((now.st_mode & kModeBits) == mode) return 0;
  return fchmod(file, mode) == 0 ? 0 : errno;
}

}  // namespace st::io
