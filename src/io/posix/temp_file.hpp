// Temporary files, named ".NAME.st-new-" plus 16 random digits, so no other process can create the name in advance.
//
// A writer holds a lock (flock) on its temporary file, and the kernel releases it when the process ends. So a file with
// such a name is stale if it can be locked. Only the holder of the lock may remove it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <string>

#include "io/posix/file.hpp"

namespace st::io {

// Removes stale temporary files of this target that belong to this process's user or to `owner`, the owner of the
// target. A writer gives its file to that owner shortly before the rename. Checks only the first 4096 names of the
// directory.
void sweep_temp_files(int directory, const std::string& target, uid_t owner);

// These create or name a temporary file, and lock it. On failure, they return no descriptor or an empty name, and set
// errno.
Descriptor create_temp_file(int directory, const std::string& target, mode_t mode, std::string& name);
std::string link_temp_file(int file, int directory, const std::string& target);

// Call this after the rename. Otherwise a process forked in the meantime would keep the lock.
void unlock_temp_file(int file);

// Renames the temporary file to the target. Returns 0 or the errno.
int rename_temp_file(int directory, const std::string& temp_name, const std::string& target, bool replace);

}  // namespace st::io
