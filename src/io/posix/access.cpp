// The names of the attributes are asked of the system without its ACL library, and their values are only passed on.
// SPDX-License-Identifier: Apache-2.0
#include "io/posix/access.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <string_view>

#include <fmt/core.h>

#include "io/posix/descriptor.hpp"

namespace st::io {

namespace {

constexpr std::size_t kMostBytes = 65536;  // of a value, and of all names: the kernel's own limits
constexpr mode_t kModeBits = 07777;
constexpr int kMostLooks = 3;  // at a file whose access others are changing

constexpr std::array<const char*, 2> kLists{"system.posix_acl_access", "system.nfs4_acl"};

// These tell of the old bytes, or let the program in them do more.
constexpr std::array<std::string_view, 3> kEndWithBytes{"security.capability", "security.ima", "security.evm"};

bool is_handed_on(std::string_view name) {
  if (std::find(kEndWithBytes.begin(), kEndWithBytes.end(), name) != kEndWithBytes.end()) return false;
  return name.starts_with("user.") || name.starts_with("security.");
}

// A file by its path, or by its descriptor where there is one.
struct Place {
  std::string path;
  int file = -1;
};

// 0 and the value, or the errno.
int get(const Place& place, const char* name, std::string& value) {
  value.resize(kMostBytes);
  const ssize_t n = place.file >= 0 ? fgetxattr(place.file, name, value.data(), value.size())
                                    : lgetxattr(place.path.c_str(), name, value.data(), value.size());
  const int error = errno;
  value.resize(n < 0 ? 0 : static_cast<std::size_t>(n));
  return n < 0 ? error : 0;
}

bool is_none(int error) { return error == ENODATA || error == EOPNOTSUPP; }

std::vector<std::string> names_at(const Place& place) {
  std::string list(kMostBytes, '\0');
  const ssize_t n = place.file >= 0 ? flistxattr(place.file, list.data(), list.size())
                                    : llistxattr(place.path.c_str(), list.data(), list.size());
  std::vector<std::string> names;
  for (std::size_t at = 0; n > 0 && at < static_cast<std::size_t>(n); at += names.back().size() + 1) {
    names.emplace_back(list.c_str() + at);
  }
  return names;
}

std::optional<struct stat> look_at(int folder, const std::string& name) {
  struct stat status {};
  if (fstatat(folder, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) return std::nullopt;
  return status;
}

bool is_same_access(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino && a.st_mode == b.st_mode && a.st_uid == b.st_uid &&
         a.st_gid == b.st_gid;
}

void read_attributes(int folder, const std::string& name_of_file, Access& access) {
  Place place{fmt::format("/proc/self/fd/{}/{}", folder, name_of_file), -1};
  Descriptor opened;
  struct stat status {};
  if (lstat(place.path.c_str(), &status) != 0) {
    opened = open_existing(folder, name_of_file.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    place.file = opened.get();
  }
  access.lists.clear();
  access.others.clear();
  access.lists_known = true;
  std::string value;
  for (const char* const name : kLists) {
    const int error = get(place, name, value);
    if (error == 0) access.lists.push_back({name, value});
    if (error != 0 && !is_none(error)) access.lists_known = false;
  }
  for (const std::string& name : names_at(place)) {
    if (is_handed_on(name) && get(place, name.c_str(), value) == 0) access.others.push_back({name, value});
  }
}

const Attribute* find(const std::vector<Attribute>& attributes, std::string_view name) {
  const auto at =
      std::find_if(attributes.begin(), attributes.end(), [&](const Attribute& a) { return a.name == name; });
  return at == attributes.end() ? nullptr : &*at;
}

// Asks before it sets: a security module reports each attempt that it refuses.
bool give_attribute(int file, const Attribute& attribute) {
  std::string now;
  if (get({{}, file}, attribute.name.c_str(), now) == 0 && now == attribute.value) return true;
  return fsetxattr(file, attribute.name.c_str(), attribute.value.data(), attribute.value.size(), 0) == 0;
}

// Also takes away what the file was given by its folder. false: it has other lists now.
bool give_list(int file, const char* name, const Attribute* wanted) {
  std::string now;
  const int error = get({{}, file}, name, now);
  if (error != 0 && !is_none(error)) return false;
  if (wanted == nullptr) return error != 0 || fremovexattr(file, name) == 0;
  return give_attribute(file, *wanted);
}

bool give_lists(int file, const std::vector<Attribute>& lists) {
  bool given = true;
  for (const char* const name : kLists) given = give_list(file, name, find(lists, name)) && given;
  return given;
}

// Who may not give the file away keeps it. false: it has not even the group.
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
    read_attributes(folder, name, access);
    const auto after = look_at(folder, name);
    if (after && is_same_access(*before, *after)) return access;
  }
  access.lists_known = false;
  return access;
}

int give_access(int file, const Access& access) {
  struct stat now {};
  if (fstat(file, &now) != 0) return errno;
  const bool group_given = give_owner(file, now, access);
  for (const Attribute& attribute : access.others) give_attribute(file, attribute);
  mode_t mode = access.mode;
  const bool lists_given =
      access.lists_known && (group_given || access.lists.empty()) && give_lists(file, access.lists);
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
