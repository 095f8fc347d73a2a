// SPDX-License-Identifier: Apache-2.0
#include "io/posix/open_again.hpp"
#include "base/formatted.hpp"

#include <array>
#include <climits>

namespace st::io {

namespace {

std::string link_to(int descriptor) { return formatted("/proc/self/fd/{}", descriptor); }

}  // namespace

Descriptor open_again(int descriptor, int flags) { return open_existing(AT_FDCWD, link_to(descriptor).c_str(), flags); }

std::string real_path(int descriptor, const std::string& /*path*/) {
  std::array<char, PATH_MAX> path{};
  const ssize_t n = readlink(link_to(descriptor).c_str(), path.data(), path.size());
  return n <= 0 || static_cast<std::size_t>(n) == path.size() ? std::string()
                                                              : std::string(path.data(), static_cast<std::size_t>(n));
}

}  // namespace st::io
