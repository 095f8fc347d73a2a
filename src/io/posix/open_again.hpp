// What Linux tells of an open descriptor through /proc: its file once more, and where it lies.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "io/posix/descriptor.hpp"

namespace st::io {

// Opens the descriptor's file anew, whatever became of its path. No descriptor, and errno, where the system cannot.
Descriptor open_again(int descriptor, int flags);

// The path of the open file without links; `path` is what it was opened by. Asked after the opening, so that nobody can
// exchange the file between a check and the use. Empty when the system cannot tell.
std::string real_path(int descriptor, const std::string& path);

}  // namespace st::io
