// What Linux tells of an open descriptor through /proc: its file once more, and where it lies.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "io/posix/descriptor.hpp"

namespace st::io {

// Returns the path through which Linux opens the file of an open descriptor, whatever became of its name. Only
// src/io/linux has it. Not through /proc/self, which shows the descriptors of the main thread: this thread may have a
// table of its own (unshare(CLONE_FILES)).
std::string path_of_descriptor(int descriptor);

// Opens the descriptor's file anew, whatever became of its path. No descriptor, and errno, where the system cannot:
// ESTALE if it opened another file.
Descriptor open_again(int descriptor, int flags);

// The path of the open file without links; `path` is what it was opened by. Asked after the opening, so that nobody can
// exchange the file between a check and the use. Empty when the system cannot tell.
std::string real_path(int descriptor, const std::string& path);

}  // namespace st::io
