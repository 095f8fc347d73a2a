// The blocks of files: shared or copied inside the kernel, taken beforehand, left out where there are holes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace st::io {

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

// Takes the space for a file of this size at once. The errno when there is not so much; 0 otherwise, also where the
// filesystem cannot.
int take_space(int file, std::uint64_t size);

}  // namespace st::io
