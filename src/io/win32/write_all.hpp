// Writing to handles until all is written: short writes, lengths beyond the 32 bits that one call takes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <windows.h>

#include <cstddef>
#include <cstdint>

namespace st::io {

// Each returns 0 or the error that stopped it.
int write_all_at(HANDLE file, std::uint64_t offset, const void* data, std::size_t n);
int write_all(HANDLE stream, const void* data, std::size_t n);
int sync_now(HANDLE file);

}  // namespace st::io
