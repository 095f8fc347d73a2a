// The lock between edits in place, saves, and readers of a header.
//
// A write() inside one page is all or nothing after a crash, but a reader on another processor may see its first half.
// So an editor holds a lock while it writes. Readers take the lock only if necessary: the system updates a file's ctime
// before it copies the bytes of a write. If the ctime is old after reading, no write had begun. For most opens this
// costs one fstat.
//
// docs/filesystems.md lists what is not covered.
//
// The lock is an OFD lock on one byte far past all data. It is not flock: editors use flock to exclude each other, and
// users hold it on whole files for hours.
//
// A lock of another process on the whole file covers that byte, too. Opens of a recently changed file and saves then wait
// for two seconds, and edits fail, because without its lock an edit could undo a save.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>

#include "io/posix/file.hpp"
#include "io/posix/system.hpp"

namespace st::io {

class EditedFile;

class EditLock {
 public:
  // Takes the lock shared with other readers; waits up to two seconds for an edit to end. Not held after that, or if
  // the system refuses.
  static EditLock shared(const RegularFile& file);
  static EditLock shared(int descriptor);
  // Also waits for readers. The descriptor must be open for writing.
  static EditLock exclusive(int descriptor);
  // Takes the exclusive lock on the regular file that has this name once the lock is held. Also not held if another
  // process keeps a lease on the file for two seconds.
  static EditLock of_name(int directory, const std::string& name);
  // Takes the exclusive lock through the editor's own descriptor, because on NFS the editor's flock excludes locks
  // through any other descriptor.
  static EditLock of_edited(const EditedFile& file);

  EditLock(EditLock&& other) noexcept
      : own_(std::move(other.own_)), locked_(std::exchange(other.locked_, -1)), error_(other.error_) {}
  EditLock& operator=(EditLock&&) = delete;
  ~EditLock() { unlock(); }

  bool held() const { return locked_ >= 0; }
  // Why the lock is not held: an errno; EAGAIN if another process has held it for two seconds.
  int error() const { return error_; }
  // Throws unless the lock is held or the filesystem has no locks. Status::state: another process holds it. Messages
  // contain `shown`.
  void require(const std::string& shown) const;

 private:
  EditLock() = default;
  static EditLock of_descriptor(int descriptor, ByteLock kind);
  static EditLock try_name(int directory, const std::string& name);
  void unlock();

  Descriptor own_;  // empty if the caller owns the descriptor
  int locked_ = -1;
  int error_ = 0;
};

// Whether this error means that the system or the filesystem has no locks.
bool is_without_locks(int error);

}  // namespace st::io
