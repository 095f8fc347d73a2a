// SPDX-License-Identifier: Apache-2.0
#include "io/posix/replaceable.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>

namespace st::io {

Descriptor open_folder_for_lookup(int folder, const char* path) {
#if defined(O_SEARCH)
  return open_file(folder, path, O_SEARCH | O_DIRECTORY);
#else
  return open_file(folder, path, O_RDONLY | O_DIRECTORY);
#endif
}

// The link is looked at before and after its text is read.
int read_link(int folder, const std::string& name, SymbolicLink& link) {
  if (fstatat(folder, name.c_str(), &link.status, AT_SYMLINK_NOFOLLOW) != 0) return errno;
  std::array<char, PATH_MAX> text;
  const ssize_t n = readlinkat(folder, name.c_str(), text.data(), text.size());
  if (n < 0) return errno == EINVAL ? EAGAIN : errno;
  link.text.assign(text.data(), static_cast<std::size_t>(n));
  struct stat after {};
  if (fstatat(folder, name.c_str(), &after, AT_SYMLINK_NOFOLLOW) != 0) return errno;
  return after.st_dev == link.status.st_dev && after.st_ino == link.status.st_ino ? 0 : EAGAIN;
}

Hold hold_of(int /*folder*/, const std::string& /*name*/) { return Hold::none; }

bool may_rename_others_files() { return geteuid() == 0; }

}  // namespace st::io
