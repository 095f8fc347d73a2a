// The names that files have while they wait to take their target's place: ".NAME.st-new-0", "...-1" and so on.
//
// A fixed series, not random names, so that what a killed process left behind is found again. Whoever has such a
// file holds a lock on it (flock), which the kernel drops with the process: a file of the series that can be locked
// is litter, and only who holds its lock may remove it. Each writer of a target takes the first free number.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <string>

#include "io/descriptor.hpp"

namespace st::io {

// Removes what dead writers of this target left behind.
void sweep_siblings(int folder, const std::string& target);

// A nameless file must be locked before it gets a name.
void lock_sibling(int file);

// Each of these two leaves errno where there is no answer (no descriptor, an empty name).
Descriptor create_sibling(int folder, const std::string& target, mode_t mode, std::string& name);
std::string link_sibling(int file, int folder, const std::string& target);

// Gives a nameless file this very name. 0, or -1 and errno.
int link_as(int file, int folder, const std::string& name);

// The one step that changes what the target is. 0 or the errno.
int rename_sibling(int folder, const std::string& sibling, const std::string& target, bool replace);

}  // namespace st::io
