// Reading and writing until all is done: short answers, lengths beyond the 32 bits that one call takes, handles that are
// open for overlapped work and those that are not.
//
// Each call gives its own position, so that any number of threads may share a handle.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <windows.h>

#include <cstddef>
#include <cstdint>

namespace st::io {

// 0 or the error. `got` is less than n where the file ends before.
int read_at(HANDLE file, std::uint64_t offset, void* dst, std::size_t n, std::size_t& got);

// 0 or the error.
int write_at(HANDLE file, std::uint64_t offset, const void* data, std::size_t n);

// The same where bytes have no position: to a pipe or a device.
int write_next(HANDLE stream, const void* data, std::size_t n);

}  // namespace st::io
