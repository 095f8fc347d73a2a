// SPDX-License-Identifier: Apache-2.0
#include "io/sibling.hpp"

#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

#include <fmt/core.h>

namespace st::io {

namespace {

constexpr int kMostSiblings = 1000;    // that many writers of one target at once are a mistake
constexpr std::size_t kMostName = 255;  // bytes, on every filesystem that matters

// Targets whose long names begin alike share a series. That is harmless: the locks decide.
std::string sibling_name(const std::string& target, int number) {
  const std::string tail = fmt::format(".st-new-{}", number);
  std::size_t kept = std::min(target.size(), kMostName - 1 - tail.size());
  while (kept < target.size() && kept > 0 && (static_cast<unsigned char>(target[kept]) & 0xC0) == 0x80) --kept;
  return fmt::format(".{}{}", std::string_view(target).substr(0, kept), tail);
}

bool is_same_file(int file, int folder, const std::string& name) {
  struct stat here {};
  struct stat there {};
  return fstat(file, &here) == 0 && fstatat(folder, name.c_str(), &there, AT_SYMLINK_NOFOLLOW) == 0 &&
         here.st_ino == there.st_ino && here.st_dev == there.st_dev;
}

enum class Found { nothing, litter_removed, in_use };

Found sweep(int folder, const std::string& name) {
  const Descriptor file(openat(folder, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file) return errno == ENOENT ? Found::nothing : Found::in_use;
  struct stat status {};
  const bool ours = fstat(file.get(), &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == geteuid();
  if (!ours || flock(file.get(), LOCK_EX | LOCK_NB) != 0) return Found::in_use;
  if (!is_same_file(file.get(), folder, name)) return Found::in_use;  // somebody else was sweeping
  return unlinkat(folder, name.c_str(), 0) == 0 ? Found::litter_removed : Found::in_use;
}

}  // namespace

void sweep_siblings(int folder, const std::string& target) {
  for (int number = 0; number < kMostSiblings; ++number) {
    if (sweep(folder, sibling_name(target, number)) == Found::nothing) return;
  }
}

// A filesystem without locks leaves its litter to people: nothing is removed there that could be in use.
void lock_sibling(int file) { flock(file, LOCK_EX | LOCK_NB); }

Descriptor create_sibling(int folder, const std::string& target, mode_t mode, std::string& name) {
  for (int number = 0; number < kMostSiblings; ++number) {
    std::string candidate = sibling_name(target, number);
    Descriptor file(openat(folder, candidate.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode));
    if (!file && errno != EEXIST) return file;
    if (!file) continue;
    // A sweeper may hold the lock of a file that is a moment old, and is about to remove it.
    if (flock(file.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) continue;
    if (!is_same_file(file.get(), folder, candidate)) continue;
    name = std::move(candidate);
    return file;
  }
  errno = EEXIST;
  return {};
}

std::string link_sibling(int file, int folder, const std::string& target) {
  for (int number = 0; number < kMostSiblings; ++number) {
    std::string candidate = sibling_name(target, number);
    if (link_as(file, folder, candidate) == 0) return candidate;
    if (errno != EEXIST) return {};
  }
  return {};
}

int link_as(int file, int folder, const std::string& name) {
  const std::string path = fmt::format("/proc/self/fd/{}", file);
  return linkat(AT_FDCWD, path.c_str(), folder, name.c_str(), AT_SYMLINK_FOLLOW);
}

int rename_sibling(int folder, const std::string& sibling, const std::string& target, bool replace) {
  if (replace) return renameat(folder, sibling.c_str(), folder, target.c_str()) == 0 ? 0 : errno;
#if defined(RENAME_NOREPLACE)
  if (renameat2(folder, sibling.c_str(), folder, target.c_str(), RENAME_NOREPLACE) == 0) return 0;
  if (errno != EINVAL && errno != ENOSYS) return errno;
#endif
  if (linkat(folder, sibling.c_str(), folder, target.c_str(), 0) != 0) return errno;
  unlinkat(folder, sibling.c_str(), 0);
  return 0;
}

}  // namespace st::io
