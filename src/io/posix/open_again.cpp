// SPDX-License-Identifier: Apache-2.0
#include "io/posix/open_again.hpp"

#include <sys/stat.h>

#include <cerrno>
#include <cstdlib>
#include <memory>

namespace st::io {

Descriptor open_again(int /*descriptor*/, int /*flags*/) {
  errno = ENOTSUP;
  return {};
}

// The path must still lead to the file. Only who can exchange folders while it is asked can make it lie elsewhere.
std::string real_path(int descriptor, const std::string& path) {
  const std::unique_ptr<char, void (*)(void*)> real(realpath(path.c_str(), nullptr), std::free);
  struct stat opened {};
  struct stat found {};
  const bool same = real != nullptr && fstat(descriptor, &opened) == 0 && lstat(real.get(), &found) == 0 &&
                    opened.st_dev == found.st_dev && opened.st_ino == found.st_ino;
  return same ? std::string(real.get()) : std::string();
}

}  // namespace st::io
