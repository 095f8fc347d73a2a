// Locks for edits of a file's metadata.
//
// There are no edits in place on Windows, so readers take no lock. Each lock is on one byte far past all data, because
// Windows locks are mandatory: other processes cannot read or write the locked bytes. The system releases a lock with
// its handle.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "io/win32/os.hpp"

namespace st::io {

// Prevents other saves and edits between an edit's last check of its target and its rename.
class EditLock {
 public:
  // Locks the regular file that has this path once the lock is held. Waits at most two seconds. Not held if there is no
  // such file, locking fails, or the wait times out.
  static EditLock of_path(const std::wstring& path, bool exclusive);

  bool held() const { return static_cast<bool>(file_); }
  // Throws unless the lock is held, or the filesystem has no locks: Status::state if another process holds it, otherwise
  // Status::write. Messages contain `shown`.
  void require(const std::string& shown) const;
  // Unlocks and closes the file.
  void release() { file_.close(); }

 private:
  Handle file_;
  int error_ = 0;  // why the lock is not held
};

}  // namespace st::io
