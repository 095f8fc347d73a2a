// SPDX-License-Identifier: Apache-2.0
#include "permissions.hpp"

#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

namespace cli {
namespace {

constexpr const char* kAcl = "system.posix_acl_access";
constexpr mode_t kOwnerOnly = 0700;

// If the new file has another owner or group than the old one, users change between the classes user, group and other.
// Removes the rights that a user could gain by that.
mode_t without_strangers(mode_t mode, bool user_kept, bool group_kept) {
  mode_t user = mode >> 6 & 7U;
  mode_t group = mode >> 3 & 7U;
  mode_t other = mode & 7U;
  if (!group_kept) group = other = group & other;
  if (!user_kept) {
    group &= user;
    other &= user;
  }
  return user << 6 | group << 3 | other;
}

// Also removes a list that the new file has got from its folder. Returns false if `to` may have another list than
// `from`.
bool hand_on_acl(int from, int to, bool owners_kept) {
  std::vector<char> acl(1 << 16);  // the system's limit
  const ssize_t size = fgetxattr(from, kAcl, acl.data(), acl.size());
  if (size >= 0) return owners_kept && fsetxattr(to, kAcl, acl.data(), static_cast<std::size_t>(size), 0) == 0;
  if (errno != ENODATA && errno != ENOTSUP) return false;
  return fremovexattr(to, kAcl) == 0 || errno == ENODATA || errno == ENOTSUP;
}

}  // namespace

int hand_on_permissions(int from, int to) {
  struct stat old {};
  struct stat now {};
  if (fstat(from, &old) != 0 || fstat(to, &now) != 0) return errno;
  const bool group_kept = now.st_gid == old.st_gid || fchown(to, static_cast<uid_t>(-1), old.st_gid) == 0;
  const bool user_kept = now.st_uid == old.st_uid || fchown(to, old.st_uid, static_cast<gid_t>(-1)) == 0;
  mode_t mode = without_strangers(old.st_mode & 0777U, user_kept, group_kept);
  if (!hand_on_acl(from, to, user_kept && group_kept)) mode &= kOwnerOnly;
  return fchmod(to, mode) == 0 ? 0 : errno;
}

}  // namespace cli
