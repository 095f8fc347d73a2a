// Locks for edits of a file's metadata.
//
// Windows has no edits in place, so readers take no lock. Each lock is on one byte far beyond all data, since on Windows
// a lock keeps other processes from reading or writing the locked bytes. The system drops a lock with its handle.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "io/win32/os.hpp"

namespace st::io {

// Keeps other saves and edits out between an edit's last look at its target and its rename.
class EditLock {
 public:
  // Locks the regular file that has this path once the lock is held, and waits for at most two seconds. Not held if there
  // is no such file, or the filesystem or the wait fails.
  static EditLock of_path(const std::wstring& path, bool exclusive);

  bool held() const { return static_cast<bool>(file_); }
  // Throws unless the lock is held, or the filesystem has no locks: Status::state if another process holds it, otherwise
  // Status::write. Messages contain `shown`.
  void require(const std::string& shown) const;
  // Unlocks and closes the file.
  void release() { file_.close(); }

 private:
  Handle file_;
  int error_ = 0;  // why it is not held
};

}  // namespace st::io
