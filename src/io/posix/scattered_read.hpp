// Bytes that lie together in a file and apart in memory, with as few system calls as the system allows.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <span>

namespace st::io {

// As pread(2), into the first of the pieces and, where the system can, on into the others.
ssize_t read_scattered(int descriptor, std::span<const iovec> pieces, off_t offset);

}  // namespace st::io
