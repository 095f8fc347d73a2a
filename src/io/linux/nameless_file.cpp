// Where /proc is there, a nameless file gets its name through it: the other way, AT_EMPTY_PATH, wants a capability
// on all but the newest kernels.
// SPDX-License-Identifier: Apache-2.0
#include "io/posix/nameless_file.hpp"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "io/posix/identity.hpp"
#include "io/posix/open_again.hpp"

#ifndef RENAME_NOREPLACE
#include <linux/fs.h>
#endif

namespace st::io {

namespace {

#ifndef __GLIBC__  // not every musl has it
int renameat2(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) {
  return static_cast<int>(syscall(SYS_renameat2, from_folder, from, to_folder, to, flags));
}
#endif

}  // namespace

Descriptor open_nameless(int folder, mode_t mode) {
  Descriptor file = open_file(folder, ".", O_TMPFILE | O_RDWR, mode);
  if (file && access(path_of_descriptor(file.get()).c_str(), F_OK) != 0) file.close();
  return file;
}

// Looks before the link is made: afterwards, another save may already have put its file in this one's place.
int link_nameless(int file, int folder, const std::string& name) {
  const std::string path = path_of_descriptor(file);
  struct stat wanted {};
  struct stat found {};
  if (fstat(file, &wanted) != 0 || fstatat(AT_FDCWD, path.c_str(), &found, 0) != 0) return -1;
  if (!identity_of(found).same_file(identity_of(wanted))) {
    errno = ENOENT;
    return -1;
  }
  return linkat(AT_FDCWD, path.c_str(), folder, name.c_str(), AT_SYMLINK_FOLLOW);
}

int rename_to_free_name(int folder, const std::string& from, const std::string& to) {
  if (renameat2(folder, from.c_str(), folder, to.c_str(), RENAME_NOREPLACE) == 0) return 0;
  // So do old kernels, filesystems and filters say that they do not know it.
  return errno == EINVAL || errno == EPERM ? ENOSYS : errno;
}

}  // namespace st::io
