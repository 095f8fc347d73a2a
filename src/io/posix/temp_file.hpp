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

// Removes what dead writers of this target left behind. A folder of many files is not read to its end.
void sweep_siblings(int folder, const std::string& target);

// Each of these two leaves errno where there is no answer (no descriptor, an empty name). The file is locked then.
Descriptor create_sibling(int folder, const std::string& target, mode_t mode, std::string& name);
std::string link_sibling(int file, int folder, const std::string& target);

// Once the file is the target it is nobody's sibling: a process forked meanwhile would hold the lock on.
void unlock_sibling(int file);

// The one step that changes what the target is. 0 or the errno.
int rename_sibling(int folder, const std::string& sibling, const std::string& target, bool replace);

}  // namespace st::io
