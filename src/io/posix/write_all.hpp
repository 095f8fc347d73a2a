// Writing to descriptors until all is written and its errors are known: interrupted calls, short writes, pipes
// without a reader, limits of size. None of these sends a signal to the process.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace st::io {

// Each returns 0 or the errno that stopped it.
int write_all_at(int descriptor, std::uint64_t offset, const void* data, std::size_t n);
int write_all(int descriptor, const void* data, std::size_t n);
int sync_now(int descriptor);
int set_length(int descriptor, std::uint64_t size);  // ftruncate(2)

}  // namespace st::io
