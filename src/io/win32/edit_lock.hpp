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
  // Gives up the file, too.
  void release() { file_.close(); }

 private:
  Handle file_;
};

}  // namespace st::io
