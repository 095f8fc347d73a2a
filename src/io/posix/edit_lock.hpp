// Keeps those who read a header apart from an edit of it in place.
//
// A write() inside one page is whole after a crash, but not for a reader on another processor, who may see its first
// half. So an editor holds a lock while it writes. Readers ask for it only when they have to: the system stamps a
// file's ctime before it moves the bytes of a write, so that a ctime which is old when the reading is over proves that
// no write had begun. To ordinary opens that is one fstat.
//
// What is not covered: a write that the system holds up between the stamp and the bytes for longer than kRecentSeconds,
// or, where there are no locks, halfway for longer than the pause between two readings; and network filesystems that
// show stale times to one client while another one writes.
//
// The lock is one byte far behind all data (fcntl, owned by the open file description). It is not flock, with which
// editors keep one another away and people lock whole files for hours.
//
// An fcntl lock of a whole file covers that byte, too. A process that holds a write lock on the whole file delays each
// open of a recently changed file, and each save over it, by two seconds. An edit fails then, even if it is a read lock,
// for which the right to read is enough: an edit without its lock could undo a save.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>

#include "io/posix/byte_lock.hpp"
#include "io/posix/descriptor.hpp"
#include "io/posix/plain_file.hpp"

namespace st::io {

// Whether another process may have been writing to the file while it was read just now.
bool changed_lately(int descriptor);

class EditLock {
 public:
  // Shared with all readers; waits for an edit to end. Not held after two seconds, or if the system refuses.
  static EditLock shared(const PlainFile& file);
  static EditLock shared(int descriptor);
  // Waits for readers alike. The descriptor must be open for writing.
  static EditLock exclusive(int descriptor);
  // Of the regular file that has this name once the lock is held. Not held either if another process keeps a lease on
  // the file for two seconds.
  static EditLock of_name(int folder, const std::string& name, bool exclusive);

  EditLock(EditLock&& other) noexcept
      : own_(std::move(other.own_)), locked_(std::exchange(other.locked_, -1)), error_(other.error_) {}
  EditLock& operator=(EditLock&&) = delete;
  ~EditLock();

  bool held() const { return locked_ >= 0; }
  // Why it is not held: an errno, EAGAIN if another process has held it for two seconds.
  int error() const { return error_; }
  // Throws unless it is held, or cannot be because there are no locks. `shown`: the file, for the message. Status::state
  // if another process holds it.
  void require(const std::string& shown) const;

 private:
  EditLock() = default;
  static EditLock refused(int error);
  void lock(int descriptor, ByteLock kind);

  Descriptor own_;  // unless the caller keeps it
  int locked_ = -1;
  int error_ = 0;
};

// Whether this error of a lock says that the system or the filesystem has none.
bool is_without_locks(int error);

}  // namespace st::io
