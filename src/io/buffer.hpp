// Memory to read tensors into: huge pages where the system has them, there before the first byte arrives.
//
// Into memory that is touched for the first time, reading spends more time on page faults than on the disk: four
// kilobytes each, one after another. Huge pages alone mend most of that. If a buffer is filled at once, its pages
// are better allocated while it is filled, since they are cleared in the processor's cache; else before.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace st::io {

inline constexpr std::size_t kBufferAlignment = std::size_t{2} << 20;

enum class Pages : std::uint8_t { at_once, as_they_are_touched };

// Zeroed, aligned to kBufferAlignment. Throws Status::no_memory. threads 0: choose.
std::byte* new_buffer(std::uint64_t bytes, Pages pages, unsigned threads);
void free_buffer(std::byte* buffer) noexcept;  // null is fine

// What each system does for new_buffer(): memory that is zeroed and aligned, whose pages come when they are touched; and
// pages without touching them, false if they have to be touched.
std::byte* reserve_buffer(std::uint64_t bytes);
bool populate_buffer(std::byte* begin, std::size_t bytes);

// Where the system can, the buffer is left out of processes that are forked later. Their copy of a page would be made when
// one of them writes to it: a device that was told the address of a page could then go on with the other's.
void keep_from_children(std::byte* begin, std::size_t bytes) noexcept;

}  // namespace st::io
