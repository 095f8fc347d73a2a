// Memory to read tensors into: huge pages where the system has them, all there before the first byte arrives.
//
// Into memory that is touched for the first time, reading spends more time on page faults than on the disk: four
// kilobytes each, one after another.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace st::io {

inline constexpr std::size_t kBufferAlignment = std::size_t{2} << 20;

// Zeroed, aligned to kBufferAlignment. Throws Status::no_memory. threads 0: choose.
std::byte* new_buffer(std::uint64_t bytes, unsigned threads);
void free_buffer(std::byte* buffer) noexcept;  // null is fine

}  // namespace st::io
