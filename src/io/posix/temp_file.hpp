// Temporary files. Their names are ".NAME.st-new-" and 16 random digits, which no other process can occupy beforehand.
//
// A writer holds a lock (flock) on its temporary file, and the kernel drops the lock with the process. A file of such a
// name that can be locked is therefore stale. Only the holder of its lock may remove it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <string>

#include "io/posix/file.hpp"

namespace st::io {

// Removes stale temporary files of this target. They belong to this process's user or to `owner`, the owner of the target:
// a writer gives its file to that owner shortly before the rename. Looks at the first 4096 names of the directory only.
void sweep_temp_files(int directory, const std::string& target, uid_t owner);

// Create or name a temporary file, and lock it. If that fails, they return no descriptor or an empty name, and set
// errno.
Descriptor create_temp_file(int directory, const std::string& target, mode_t mode, std::string& name);
std::string link_temp_file(int file, int directory, const std::string& target);

// Call this after the rename: a process that was forked in the meantime would keep the lock.
void unlock_temp_file(int file);

// Renames the temporary file to the target. Returns 0 or the errno.
int rename_temp_file(int directory, const std::string& temp_name, const std::string& target, bool replace);

}  // namespace st::io
