// Locks on single bytes far behind all data, which nobody reads or writes, since on Windows a lock keeps others from the
// bytes that it is on. The system drops them with the handle.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>

#include "io/win32/handle.hpp"

namespace st::io {

enum class LockedByte : std::uint8_t {
  edit,     // for as long as an edit takes
  replace,  // from the last look at a file to its replacement
};

// Returns 0, ERROR_LOCK_VIOLATION if somebody else holds the lock for longer than this, or another error.
int lock_byte(HANDLE file, LockedByte byte, bool exclusive, std::chrono::milliseconds patience);

}  // namespace st::io
