// SPDX-License-Identifier: Apache-2.0
#include "io/posix/open_again.hpp"
#include "base/text.hpp"

#include <array>
#include <cerrno>
#include <climits>

#include "io/posix/identity.hpp"

namespace st::io {

std::string path_of_descriptor(int descriptor) { return formatted("/proc/thread-self/fd/{}", descriptor); }

Descriptor open_again(int descriptor, int flags) {
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

}  // namespace st::io
