// Open files, names and attributes on Linux. Attributes are copied as opaque bytes, by system calls, without the ACL
// library.
// SPDX-License-Identifier: Apache-2.0
#include "io/posix/system.hpp"

#include <fcntl.h>
#include <linux/capability.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <string_view>

#include "base/text.hpp"

#ifndef RENAME_NOREPLACE
#include <linux/fs.h>
#endif

namespace st::io {

namespace {

// Returns the /proc path that reopens an open descriptor's file, even if its name has changed. Not /proc/self/fd, which
// shows the main thread's descriptors: this thread may have its own descriptor table (unshare(CLONE_FILES)).
std::string path_of_descriptor(int descriptor) { return formatted("/proc/thread-self/fd/{}", descriptor); }

// From linux/stat.h; missing in musl's headers.
[[maybe_unused]] constexpr std::uint64_t kImmutable = 0x10;
[[maybe_unused]] constexpr std::uint64_t kAppend = 0x20;
[[maybe_unused]] constexpr std::uint64_t kMountRoot = 0x2000;

#ifndef __GLIBC__  // missing in some versions of musl
int renameat2(int from_directory, const char* from, int to_directory, const char* to, unsigned flags) {
  return static_cast<int>(syscall(SYS_renameat2, from_directory, from, to_directory, to, flags));
}
#endif

constexpr std::size_t kMostBytes = 65536;  // kernel limits for one value, and for the list of names

constexpr std::array<const char*, 2> kLists{"system.posix_acl_access", "system.nfs4_acl"};

// Attributes that describe the old bytes or grant capabilities to them as a program, so they are not copied.
constexpr std::array<std::string_view, 3> kEndWithBytes{"security.capability", "security.ima", "security.evm"};

bool is_handed_on(std::string_view name) {
  if (std::find(kEndWithBytes.begin(), kEndWithBytes.end(), name) != kEndWithBytes.end()) return false;
  return starts_with(name, "user.") || starts_with(name, "security.");
}

// A file by its descriptor, or by its path if there is none.
struct Place {
  std::string path;
  int file = -1;
};

// Returns 0 and sets the value, or returns the errno.
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

const Attribute* find(const std::vector<Attribute>& attributes, std::string_view name) {
  const auto at =
      std::find_if(attributes.begin(), attributes.end(), [&](const Attribute& a) { return a.name == name; });
  return at == attributes.end() ? nullptr : &*at;
}

// Compares before setting, because security modules log each refused attempt.
bool give_attribute(int file, const Attribute& attribute) {
  std::string now;
  if (get({{}, file}, attribute.name.c_str(), now) == 0 && now == attribute.value) return true;
  return fsetxattr(file, attribute.name.c_str(), attribute.value.data(), attribute.value.size(), 0) == 0;
}

// Also removes a list that the file inherited from its directory. Returns false if the file still has a different list.
bool give_list(int file, const char* name, const Attribute* wanted) {
  std::string now;
  const int error = get({{}, file}, name, now);
  if (error != 0 && !is_none(error)) return false;
  if (wanted == nullptr) return error != 0 || fremovexattr(file, name) == 0;
  return give_attribute(file, *wanted);
}

bool leads_to(const std::string& path, int directory) {
  struct stat found {};
  struct stat wanted {};
  return stat(path.c_str(), &found) == 0 && fstat(directory, &wanted) == 0 &&
         identity_of(found).same_file(identity_of(wanted));
}

}  // namespace

// ---- open files ----------------------------------------------------------------------------------------------------

Descriptor reopen(int descriptor, int flags) {
  Descriptor opened = open_file(AT_FDCWD, path_of_descriptor(descriptor).c_str(), flags);
  if (!opened) return opened;
  struct stat wanted {};
  struct stat found {};
  if (fstat(descriptor, &wanted) == 0 && fstat(opened.get(), &found) == 0 &&
      identity_of(found).same_file(identity_of(wanted))) {
    return opened;
  }
  opened.close();
  errno = ESTALE;
  return opened;
}

std::string real_path(int descriptor, const std::string& /*path*/) {
  std::array<char, PATH_MAX> path{};
  const ssize_t n = readlink(path_of_descriptor(descriptor).c_str(), path.data(), path.size());
  return n <= 0 || static_cast<std::size_t>(n) == path.size() ? std::string()
                                                              : std::string(path.data(), static_cast<std::size_t>(n));
}

// ---- names in a directory ------------------------------------------------------------------------------------------

Descriptor open_directory_for_lookup(int directory, const char* path) {
  return open_file(directory, path, O_PATH | O_DIRECTORY);
}

int read_link(int directory, const std::string& name, SymbolicLink& link) {
  const Descriptor opened = open_file(directory, name.c_str(), O_PATH | O_NOFOLLOW);
  if (!opened || fstat(opened.get(), &link.status) != 0) return errno;
  std::array<char, PATH_MAX> text;
  const ssize_t n = readlinkat(opened.get(), "", text.data(), text.size());
  if (n < 0) return errno == ENOENT ? EAGAIN : errno;
  link.text.assign(text.data(), static_cast<std::size_t>(n));
  return 0;
}

Hold hold_of([[maybe_unused]] int directory, [[maybe_unused]] const std::string& name) {
#if defined(STATX_TYPE)
  struct statx more {};
  // A direct system call, because musl has no wrapper before 1.2.5.
  if (syscall(SYS_statx, directory, name.c_str(), AT_SYMLINK_NOFOLLOW, STATX_TYPE, &more) != 0) return Hold::none;
  if ((more.stx_attributes & (kAppend | kImmutable)) != 0) return Hold::append_only;
  if ((more.stx_attributes & kMountRoot) != 0) return Hold::mount_point;
#endif
  return Hold::none;
}

bool may_rename_others_files() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct sets[2]{};
  if (syscall(SYS_capget, &header, sets) == 0) return (sets[0].effective & 1U << CAP_FOWNER) != 0;
  return geteuid() == 0;
}

bool is_unmapped(std::uint32_t owner_or_group) {
  constexpr std::uint32_t kOverflow = 65534;     // default of /proc/sys/kernel/overflowuid, unchanged in practice
  constexpr ino_t kFirstNamespace = 0xEFFFFFFD;  // PROC_USER_INIT_INO
  struct stat status {};
  return owner_or_group == kOverflow && (stat("/proc/self/ns/user", &status) != 0 || status.st_ino != kFirstNamespace);
}

// Linking a file later needs /proc: the alternative, AT_EMPTY_PATH, requires a capability on all but the newest
// kernels.
Descriptor open_nameless(int directory, mode_t mode) {
  Descriptor file = open_file(directory, ".", O_TMPFILE | O_RDWR, mode);
  if (file && access(path_of_descriptor(file.get()).c_str(), F_OK) != 0) file.close();
  return file;
}

// Checks the file before making the link: afterwards, another save may already have replaced it.
int link_nameless(int file, int directory, const std::string& name) {
  const std::string path = path_of_descriptor(file);
  struct stat wanted {};
  struct stat found {};
  if (fstat(file, &wanted) != 0 || fstatat(AT_FDCWD, path.c_str(), &found, 0) != 0) return -1;
  if (!identity_of(found).same_file(identity_of(wanted))) {
    errno = ENOENT;
    return -1;
  }
  return linkat(AT_FDCWD, path.c_str(), directory, name.c_str(), AT_SYMLINK_FOLLOW);
}

int rename_to_free_name(int from_directory, const std::string& from, int directory, const std::string& to) {
  if (renameat2(from_directory, from.c_str(), directory, to.c_str(), RENAME_NOREPLACE) == 0) return 0;
  // Kernels, filesystems and seccomp filters that do not support the call return these errors.
  return errno == EINVAL || errno == EPERM ? ENOSYS : errno;
}

// ---- what a file has besides its bytes -----------------------------------------------------------------------------

// With /proc, this works without a descriptor.
Attributes attributes_of(int directory, const std::string& name_of_file) {
  const std::string path_of_directory = path_of_descriptor(directory);
  Place place{formatted("{}/{}", path_of_directory, name_of_file), -1};
  Descriptor opened;
  struct stat status {};
  if (!leads_to(path_of_directory, directory) || lstat(place.path.c_str(), &status) != 0) {
    opened = open_file(directory, name_of_file.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    place = {"", opened.get()};  // if that fails too, every query returns an error
  }
  Attributes attributes;
  attributes.lists_known = true;
  std::string value;
  for (const char* const name : kLists) {
    const int error = get(place, name, value);
    if (error == 0) attributes.lists.push_back({name, value});
    if (error != 0 && !is_none(error)) attributes.lists_known = false;
  }
  for (const std::string& name : names_at(place)) {
    if (is_handed_on(name) && get(place, name.c_str(), value) == 0) attributes.others.push_back({name, value});
  }
  return attributes;
}

void give_others(int file, const std::vector<Attribute>& others) {
  for (const Attribute& attribute : others) give_attribute(file, attribute);
}

bool give_lists(int file, const std::vector<Attribute>& lists) {
  bool given = true;
  for (const char* const name : kLists) given = give_list(file, name, find(lists, name)) && given;
  return given;
}

}  // namespace st::io
