// A file that gets its name when its bytes are complete, and a name that is given only if nobody has it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <string>

#include "io/posix/descriptor.hpp"

namespace st::io {

// For reading and writing. None where this folder's filesystem has no nameless files, or nothing could name one later.
Descriptor open_nameless(int folder, mode_t mode);

// Gives a nameless file this very name. 0, or -1 and errno.
int link_nameless(int file, int folder, const std::string& name);

// As renameat(2), but EEXIST where the new name is taken. 0 or the errno; ENOSYS where the system has no such rename.
int rename_to_free_name(int folder, const std::string& from, const std::string& to);

}  // namespace st::io
