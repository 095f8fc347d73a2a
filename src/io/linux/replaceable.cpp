// SPDX-License-Identifier: Apache-2.0
#include "io/posix/replaceable.hpp"

#include <fcntl.h>
#include <linux/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstdint>

namespace st::io {

namespace {

// Facts of linux/stat.h, which musl's headers leave out.
[[maybe_unused]] constexpr std::uint64_t kImmutable = 0x10;
[[maybe_unused]] constexpr std::uint64_t kAppend = 0x20;
[[maybe_unused]] constexpr std::uint64_t kMountRoot = 0x2000;

}  // namespace

Descriptor open_folder_for_lookup(int folder, const char* path) {
  return open_file(folder, path, O_PATH | O_DIRECTORY);
}

int read_link(int folder, const std::string& name, SymbolicLink& link) {
  const Descriptor opened = open_file(folder, name.c_str(), O_PATH | O_NOFOLLOW);
  if (!opened || fstat(opened.get(), &link.status) != 0) return errno;
  std::array<char, PATH_MAX> text;
  const ssize_t n = readlinkat(opened.get(), "", text.data(), text.size());
  if (n < 0) return errno == ENOENT ? EAGAIN : errno;
  link.text.assign(text.data(), static_cast<std::size_t>(n));
  return 0;
}

Hold hold_of([[maybe_unused]] int folder, [[maybe_unused]] const std::string& name) {
#if defined(STATX_TYPE)
  struct statx more {};
  // Past the C library, since musl has no such function before 1.2.5.
  if (syscall(SYS_statx, folder, name.c_str(), AT_SYMLINK_NOFOLLOW, STATX_TYPE, &more) != 0) return Hold::none;
  if ((more.stx_attributes & kMountRoot) != 0) return Hold::mount_point;
  if ((more.stx_attributes & (kAppend | kImmutable)) != 0) return Hold::append_only;
#endif
  return Hold::none;
}

bool may_rename_others_files() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct sets[2]{};
  if (syscall(SYS_capget, &header, sets) == 0) return (sets[0].effective & 1U << CAP_FOWNER) != 0;
  return geteuid() == 0;
}

}  // namespace st::io
