// The names that files have while they wait to take their target's place: ".NAME.st-new-" and 16 random digits, so
// that nobody can occupy them beforehand.
//
// What a killed process left behind is found by its name's beginning. Whoever has such a file holds a lock on it
// (flock), which the kernel drops with the process: a file of that name which can be locked is litter, and only who
// holds its lock may remove it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <string>

#include "io/posix/descriptor.hpp"

namespace st::io {

// Removes what dead writers of this target left behind, if it belongs to this process's user or to `owner`: the target's,
// to whom a writer gives its file shortly before the rename. A folder of many files is not read to its end.
void sweep_temp_files(int folder, const std::string& target, uid_t owner);

// Each of these two leaves errno where there is no answer (no descriptor, an empty name). The file is locked then.
Descriptor create_temp_file(int folder, const std::string& target, mode_t mode, std::string& name);
std::string link_temp_file(int file, int folder, const std::string& target);

// To be called after the rename: a process that was forked meanwhile would go on holding the lock.
void unlock_temp_file(int file);

// The one step that changes what the target is. 0 or the errno.
int rename_temp_file(int folder, const std::string& temp_name, const std::string& target, bool replace);

}  // namespace st::io
