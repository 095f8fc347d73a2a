// The names of the attributes are asked of the system without its ACL library, and their values are only passed on.
// SPDX-License-Identifier: Apache-2.0
#include "io/posix/attributes.hpp"
#include "base/text.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>

#include "io/posix/descriptor.hpp"
#include "io/posix/identity.hpp"
#include "io/posix/open_again.hpp"

namespace st::io {

namespace {

constexpr std::size_t kMostBytes = 65536;  // of a value, and of all names: the kernel's own limits

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

bool leads_to(const std::string& path, int folder) {
  struct stat found {};
  struct stat wanted {};
  return stat(path.c_str(), &found) == 0 && fstat(folder, &wanted) == 0 &&
         identity_of(found).same_file(identity_of(wanted));
}

}  // namespace

// Needs no descriptor where /proc is there, and shows the descriptors of this thread.
Attributes attributes_of(int folder, const std::string& name_of_file) {
  const std::string path_of_folder = path_of_descriptor(folder);
  Place place{formatted("{}/{}", path_of_folder, name_of_file), -1};
  Descriptor opened;
  struct stat status {};
  if (!leads_to(path_of_folder, folder) || lstat(place.path.c_str(), &status) != 0) {
    opened = open_file(folder, name_of_file.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    place = {"", opened.get()};  // without a descriptor either, all that is asked for is an error
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
