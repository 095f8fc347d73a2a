// Names, locks and removal of temporary files.
// SPDX-License-Identifier: Apache-2.0
#include "io/posix/temp_file.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <string_view>

#include "base/text.hpp"
#include "io/os.hpp"
#include "io/posix/system.hpp"

namespace st::io {

namespace {

constexpr int kMostTries = 100;         // a random name is taken with probability 2^-64
constexpr int kMostEntries = 4096;      // of a directory; takes a millisecond
constexpr std::size_t kMostName = 255;  // bytes, on all common filesystems
constexpr std::size_t kDigits = 16;
constexpr std::size_t kOldDigits = 3;  // version 0.1 counted from 0

// Targets with long names that begin alike share this prefix. That is harmless, because the locks decide which files
// are stale.
std::string beginning(const std::string& target) {
  constexpr std::string_view kMark = ".st-new-";
  std::size_t kept = std::min(target.size(), kMostName - 1 - kMark.size() - kDigits);
  while (kept < target.size() && kept > 0 && continues_character(target[kept])) --kept;
  return formatted(".{}{}", std::string_view(target).substr(0, kept), kMark);
}

std::string random_name(const std::string& target) { return formatted("{}{:016x}", beginning(target), random_seed()); }

bool is_temp_name(std::string_view name, std::string_view beginning_of_target) {
  if (!starts_with(name, beginning_of_target)) return false;
  const std::string_view digits = name.substr(beginning_of_target.size());
  const bool counted = !digits.empty() && digits.size() <= kOldDigits;
  return (digits.size() == kDigits || counted) && digits.find_first_not_of("0123456789abcdef") == digits.npos;
}

// Returns 0 if the name leads to the open file, ENOENT if it does not, or the errno if the check fails.
int name_error(int file, int directory, const std::string& name) {
  struct stat here {};
  struct stat there {};
  if (fstat(file, &here) != 0 || fstatat(directory, name.c_str(), &there, AT_SYMLINK_NOFOLLOW) != 0) return errno;
  return here.st_ino == there.st_ino && here.st_dev == there.st_dev ? 0 : ENOENT;
}

bool is_ours(const struct stat& status, uid_t owner) {
  return S_ISREG(status.st_mode) && (status.st_uid == geteuid() || status.st_uid == owner);
}

void sweep(int directory, const char* name, uid_t owner) {
  struct stat status {};
  if (fstatat(directory, name, &status, AT_SYMLINK_NOFOLLOW) != 0 || !is_ours(status, owner)) return;
  const Descriptor file = open_file(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  if (!file || fstat(file.get(), &status) != 0 || !is_ours(status, owner)) return;
  if (flock(file.get(), LOCK_EX | LOCK_NB) != 0) return;
  if (name_error(file.get(), directory, name) == 0) unlinkat(directory, name, 0);  // otherwise already swept
}

// Also returns true on a filesystem without locks, where no process removes temporary files.
bool lock(int file) { return flock(file, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK; }

}  // namespace

void sweep_temp_files(int directory, const std::string& target, uid_t owner) {
  const std::string wanted = beginning(target);
  Descriptor opened = open_file(directory, ".", O_RDONLY | O_DIRECTORY);
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(opened ? fdopendir(opened.get()) : nullptr, closedir);
  if (!entries) return;
  opened.release();  // closedir closes it
  for (int i = 0; i < kMostEntries; ++i) {
    const dirent* const entry = readdir(entries.get());
    if (entry == nullptr) return;
    if (is_temp_name(entry->d_name, wanted)) sweep(directory, entry->d_name, owner);
  }
}

Descriptor create_temp_file(int directory, const std::string& target, mode_t mode, std::string& name) {
  for (int i = 0; i < kMostTries; ++i) {
    std::string candidate = random_name(target);
    Descriptor file = open_file(directory, candidate.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, mode);
    if (!file && errno != EEXIST) return file;
    if (!file) continue;
    // A process that is sweeping stale files may have locked this new file, and may be about to remove it.
    const int error = lock(file.get()) ? name_error(file.get(), directory, candidate) : EAGAIN;
    if (error == 0) {
      name = std::move(candidate);
      return file;
    }
    unlinkat(directory, candidate.c_str(), 0);
    if (error == EAGAIN || error == ENOENT) continue;
    errno = error;
    return {};
  }
  errno = EEXIST;
  return {};
}

// Locks the file before it gets a name that another process could find.
std::string link_temp_file(int file, int directory, const std::string& target) {
  lock(file);
  for (int i = 0; i < kMostTries; ++i) {
    std::string candidate = random_name(target);
    if (link_nameless(file, directory, candidate) == 0) return candidate;
    if (errno != EEXIST) return {};
  }
  return {};
}

void unlock_temp_file(int file) { flock(file, LOCK_UN); }

int rename_temp_file(int directory, const std::string& temp_name, const std::string& target, bool replace) {
  if (replace) return renameat(directory, temp_name.c_str(), directory, target.c_str()) == 0 ? 0 : errno;
  const int error = rename_to_free_name(directory, temp_name, directory, target);
  if (error != ENOSYS) return error;
  if (linkat(directory, temp_name.c_str(), directory, target.c_str(), 0) != 0) return errno;
  unlinkat(directory, temp_name.c_str(), 0);
  return 0;
}

}  // namespace st::io
