// Keeps saves out between an edit's last look at its target and its rename. There are no edits in place on Windows, from
// which readers would have to be kept.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "io/win32/handle.hpp"

namespace st::io {

class EditLock {
 public:
  // Of the regular file that has this path once the lock is held. Not held where there is none, where locks are refused,
  // or after two seconds.
  static EditLock of_path(const std::wstring& path, bool exclusive);

  bool held() const { return static_cast<bool>(file_); }
  // Throws unless it is held, or the filesystem has no locks. `shown`: the file, for the message. Status::state if another
  // process holds it.
  void require(const std::string& shown) const;
  // Gives up the file, too.
  void release() { file_.close(); }

 private:
  Handle file_;
  int error_ = 0;  // why it is not held
};

}  // namespace st::io
