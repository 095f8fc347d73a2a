// Writing to descriptors until all is written and its errors are known: interrupted calls, short writes, pipes
// without a reader.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace st::io {

// Each returns 0 or the errno that stopped it.
int write_all_at(int descriptor, std::uint64_t offset, const void* data, std::size_t n);
int write_all(int descriptor, const void* data, std::size_t n);
int sync_now(int descriptor);
int errors_of_closing(int descriptor);  // which stays open

// Copies inside the kernel: shares the blocks where the filesystem can. Returns the bytes copied; fewer than n mean
// that the kernel would not, and that the caller must move the rest itself.
std::uint64_t copy_in_kernel(int from, std::uint64_t from_offset, int to, std::uint64_t to_offset, std::uint64_t n);

struct Extent {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

// The first bytes of [at, end) that are stored and not a hole; {end, end} when the rest is a hole. All of it where the
// filesystem cannot tell, and where the file ends before `end`. Moves the descriptor's position.
Extent stored_bytes(int file, std::uint64_t at, std::uint64_t end);

}  // namespace st::io
