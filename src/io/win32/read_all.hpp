// Reading from a handle until all is read or the file ends: short answers, lengths beyond the 32 bits that one call takes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <windows.h>

#include <cstddef>
#include <cstdint>

namespace st::io {

// 0 or the error. `got` is less than n where the file ends before.
int read_all_at(HANDLE file, std::uint64_t offset, void* dst, std::size_t n, std::size_t& got);

}  // namespace st::io
