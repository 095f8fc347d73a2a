// A lock on one byte of a file that dies with its open file description, not with the first descriptor of the file that
// this process closes, as the locks of POSIX.1-2008 do.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace st::io {

enum class ByteLock : std::uint8_t { none, shared, exclusive };

// Does not wait. 0 or the errno; ENOTSUP where the system has no such locks.
int set_byte_lock(int descriptor, ByteLock lock);

}  // namespace st::io
