// SPDX-License-Identifier: Apache-2.0
#include "io/posix/temp_file.hpp"
#include "base/formatted.hpp"

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
#include "io/posix/nameless_file.hpp"
#include "io/random.hpp"

namespace st::io {

namespace {

constexpr int kMostTries = 100;         // a random name is taken once in 2^64 times
constexpr int kMostEntries = 4096;      // of a folder are looked at: a millisecond
constexpr std::size_t kMostName = 255;  // bytes, on every filesystem that matters
constexpr std::size_t kDigits = 16;
constexpr std::size_t kOldDigits = 3;  // version 0.1 counted from 0

// Targets whose long names begin alike share this. That is harmless: the locks decide.
std::string beginning(const std::string& target) {
  constexpr std::string_view kMark = ".st-new-";
  std::size_t kept = std::min(target.size(), kMostName - 1 - kMark.size() - kDigits);
  while (kept < target.size() && kept > 0 && continues_character(target[kept])) --kept;
  return formatted(".{}{}", std::string_view(target).substr(0, kept), kMark);
}

std::string random_name(const std::string& target) { return formatted("{}{:016x}", beginning(target), random_seed()); }

bool is_temp_name(std::string_view name, std::string_view beginning_of_target) {
  if (!name.starts_with(beginning_of_target)) return false;
  const std::string_view digits = name.substr(beginning_of_target.size());
  const bool counted = !digits.empty() && digits.size() <= kOldDigits;
  return (digits.size() == kDigits || counted) && digits.find_first_not_of("0123456789abcdef") == digits.npos;
}

bool is_same_file(int file, int folder, const std::string& name) {
  struct stat here {};
  struct stat there {};
  return fstat(file, &here) == 0 && fstatat(folder, name.c_str(), &there, AT_SYMLINK_NOFOLLOW) == 0 &&
         here.st_ino == there.st_ino && here.st_dev == there.st_dev;
}

bool is_ours(const struct stat& status) { return S_ISREG(status.st_mode) && status.st_uid == geteuid(); }

void sweep(int folder, const char* name) {
  struct stat status {};
  if (fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) != 0 || !is_ours(status)) return;
  const Descriptor file = open_existing(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  if (!file || fstat(file.get(), &status) != 0 || !is_ours(status)) return;
  if (flock(file.get(), LOCK_EX | LOCK_NB) != 0) return;
  if (is_same_file(file.get(), folder, name)) unlinkat(folder, name, 0);  // else somebody else was sweeping
}

// Without locks a file in use cannot be told from an abandoned one, so nothing is removed there.
bool lock(int file) { return flock(file, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK; }

Descriptor create_new(int folder, const std::string& name, mode_t mode) {
  for (;;) {
    Descriptor file(openat(folder, name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode));
    if (file || errno != EINTR) {
      // It may have been made, and found no number above the standard streams.
      if (!file && errno == EMFILE && unlinkat(folder, name.c_str(), 0) != 0) errno = EMFILE;
      return file;
    }
  }
}

}  // namespace

void sweep_temp_files(int folder, const std::string& target) {
  const std::string wanted = beginning(target);
  Descriptor opened = open_existing(folder, ".", O_RDONLY | O_DIRECTORY);
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(opened ? fdopendir(opened.get()) : nullptr, closedir);
  if (!entries) return;
  opened.release();  // closedir closes it
  for (int i = 0; i < kMostEntries; ++i) {
    const dirent* const entry = readdir(entries.get());
    if (entry == nullptr) return;
    if (is_temp_name(entry->d_name, wanted)) sweep(folder, entry->d_name);
  }
}

Descriptor create_temp_file(int folder, const std::string& target, mode_t mode, std::string& name) {
  for (int i = 0; i < kMostTries; ++i) {
    std::string candidate = random_name(target);
    Descriptor file = create_new(folder, candidate, mode);
    if (!file && errno != EEXIST) return file;
    // A sweeper may hold the lock of a file that is a moment old, and is about to remove it.
    if (!file || !lock(file.get()) || !is_same_file(file.get(), folder, candidate)) continue;
    name = std::move(candidate);
    return file;
  }
  errno = EEXIST;
  return {};
}

// The file is locked before it has a name that a sweeper can find.
std::string link_temp_file(int file, int folder, const std::string& target) {
  lock(file);
  for (int i = 0; i < kMostTries; ++i) {
    std::string candidate = random_name(target);
    if (link_nameless(file, folder, candidate) == 0) return candidate;
    if (errno != EEXIST) return {};
  }
  return {};
}

void unlock_temp_file(int file) { flock(file, LOCK_UN); }

int rename_temp_file(int folder, const std::string& temp_name, const std::string& target, bool replace) {
  if (replace) return renameat(folder, temp_name.c_str(), folder, target.c_str()) == 0 ? 0 : errno;
  const int error = rename_to_free_name(folder, temp_name, target);
  if (error != ENOSYS) return error;
  if (linkat(folder, temp_name.c_str(), folder, target.c_str(), 0) != 0) return errno;
  unlinkat(folder, temp_name.c_str(), 0);
  return 0;
}

}  // namespace st::io
