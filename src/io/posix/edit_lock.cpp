// SPDX-License-Identifier: Apache-2.0
#include "io/posix/edit_lock.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <ctime>
#include <thread>

#include "base/error.hpp"
#include "io/posix/byte_lock.hpp"

namespace st::io {

namespace {

constexpr std::time_t kRecentSeconds = 5;  // some filesystems count the times of files in steps of two
constexpr int kMostAttempts = 10;
constexpr std::chrono::seconds kPatience(2);  // for a lock, or for a lease on the file

// Not the call that waits by itself: a process that may read the file could make it wait for ever. 0 or the errno.
int wait_for_lock(int descriptor, ByteLock kind) {
  using std::chrono::microseconds;
  using std::chrono::steady_clock;
  const auto end = steady_clock::now() + kPatience;
  for (microseconds pause(20);;) {
    const int error = set_byte_lock(descriptor, kind);
    const bool is_held = error == EAGAIN || error == EACCES;
    if (!is_held && error != EINTR) return error;
    if (steady_clock::now() > end) return is_held ? EAGAIN : error;
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, microseconds(2000));
  }
}

Descriptor reopened(const PlainFile& file) {
  try {
    return file.reopen(0);
  } catch (const Error&) {
    return {};
  }
}

}  // namespace

bool changed_lately(int descriptor) {
  struct stat status {};
  return fstat(descriptor, &status) != 0 || std::time(nullptr) - status.st_ctime <= kRecentSeconds;
}

EditLock EditLock::shared(const PlainFile& file) {
  if (!file.path().empty()) return shared(file.descriptor());
  Descriptor own = reopened(file);
  EditLock lock = shared(own.get());
  lock.own_ = std::move(own);
  return lock;
}

EditLock EditLock::shared(int descriptor) {
  EditLock lock;
  lock.lock(descriptor, ByteLock::shared);
  return lock;
}

EditLock EditLock::exclusive(int descriptor) {
  EditLock lock;
  lock.lock(descriptor, ByteLock::exclusive);
  return lock;
}

void EditLock::lock(int descriptor, ByteLock kind) {
  error_ = descriptor < 0 ? EBADF : wait_for_lock(descriptor, kind);
  if (error_ == 0) locked_ = descriptor;
}

EditLock EditLock::refused(int error) {
  EditLock lock;
  lock.error_ = error;
  return lock;
}

bool is_without_locks(int error) {
  // EINVAL: Linux before 3.15. ENOLCK: a network filesystem whose server has none.
  constexpr std::array kNoLocks{ENOSYS, ENOTSUP, EOPNOTSUPP, EINVAL, ENOLCK};
  return std::find(kNoLocks.begin(), kNoLocks.end(), error) != kNoLocks.end();
}

void EditLock::require(const std::string& shown) const {
  if (held() || is_without_locks(error_)) return;
  if (error_ == EAGAIN) fail_os(Status::state, error_, "{} is locked by another process", shown);
  fail_os(Status::write, error_, "{} cannot be locked", shown);
}

EditLock EditLock::of_name(int folder, const std::string& name, bool exclusive) {
  for (int attempt = 0; attempt < kMostAttempts; ++attempt) {
    struct stat here {};
    if (fstatat(folder, name.c_str(), &here, AT_SYMLINK_NOFOLLOW) != 0) return refused(errno);
    if (!S_ISREG(here.st_mode)) return refused(ENOENT);
    Descriptor file = open_regular(folder, name.c_str(), (exclusive ? O_RDWR : O_RDONLY) | O_NOFOLLOW, kPatience);
    if (!file) return refused(errno);
    EditLock lock = exclusive ? EditLock::exclusive(file.get()) : shared(file.get());
    if (!lock.held()) return lock;
    lock.own_ = std::move(file);
    struct stat locked {};
    const bool same = fstat(lock.own_.get(), &locked) == 0 &&
                      fstatat(folder, name.c_str(), &here, AT_SYMLINK_NOFOLLOW) == 0 && here.st_dev == locked.st_dev &&
                      here.st_ino == locked.st_ino;
    if (same) return lock;
  }
  return refused(EAGAIN);
}

// Not left to the closing: a forked child may have a copy of the descriptor.
EditLock::~EditLock() {
  if (held()) set_byte_lock(locked_, ByteLock::none);
}

}  // namespace st::io
