// The lock that keeps readers of a header, saves and edits in place apart.
//
// A write() inside one page is whole after a crash, but a reader on another processor may see its first half. So an
// editor holds a lock while it writes. Readers ask for the lock only if necessary: the system stamps a file's ctime
// before it moves the bytes of a write, so a ctime that is old after the reading proves that no write had begun. For
// most opens that is one fstat.
//
// Not covered:
// - a write that the system delays for longer than kRecentSeconds between the stamp and the bytes;
// - without locks, a write that stops halfway for longer than the pause between two readings;
// - network filesystems that show stale times to one client while another one writes.
//
// The lock is an OFD lock on one byte far behind all data. It is not flock, with which editors exclude each other and
// users lock whole files for hours.
//
// An fcntl lock of the whole file covers that byte, too. A process that holds a write lock on the whole file delays
// each open of a recently changed file, and each save over it, by two seconds. An edit fails then, even if it is a read
// lock, for which the right to read is enough: an edit without its lock could undo a save.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>

#include "io/posix/file.hpp"
#include "io/posix/system.hpp"

namespace st::io {

class EditedFile;

// Whether another process may have been writing to the file while it was read just now.
bool changed_lately(int descriptor);

class EditLock {
 public:
  // Shared with all readers; waits for an edit to end. Not held after two seconds, or if the system refuses.
  static EditLock shared(const RegularFile& file);
  static EditLock shared(int descriptor);
  // Waits for readers as well. The descriptor must be open for writing.
  static EditLock exclusive(int descriptor);
  // The exclusive lock of the regular file that has this name once the lock is held. Also not held if another process
  // keeps a lease on the file for two seconds.
  static EditLock of_name(int directory, const std::string& name);
  // The exclusive lock of a file that is being edited, through the editor's own descriptor: on NFS its flock keeps out
  // every other one.
  static EditLock of_edited(const EditedFile& file);

  EditLock(EditLock&& other) noexcept
      : own_(std::move(other.own_)), locked_(std::exchange(other.locked_, -1)), error_(other.error_) {}
  EditLock& operator=(EditLock&&) = delete;
  ~EditLock() { unlock(); }

  bool held() const { return locked_ >= 0; }
  // Why it is not held: an errno, EAGAIN if another process has held it for two seconds.
  int error() const { return error_; }
  // Throws unless it is held, or the filesystem has no locks. `shown`: the file, for the message. Status::state if
  // another process holds it.
  void require(const std::string& shown) const;

 private:
  EditLock() = default;
  static EditLock of_descriptor(int descriptor, ByteLock kind);
  static EditLock try_name(int directory, const std::string& name);
  void unlock();

  Descriptor own_;  // unless the caller keeps it
  int locked_ = -1;
  int error_ = 0;
};

// Whether an error of a lock means that the system or the filesystem has none.
bool is_without_locks(int error);

}  // namespace st::io
