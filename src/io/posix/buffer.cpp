// From calloc(), which takes large zeroed memory from the system as it is. What it gave lies noted in front of the buffer.
// SPDX-License-Identifier: Apache-2.0
#include "io/buffer.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "base/error.hpp"

namespace st::io {

std::byte* reserve_buffer(std::uint64_t bytes) {
  constexpr std::size_t kFront = sizeof(void*);
  if (bytes > SIZE_MAX / 2) fail(Status::no_memory, "a buffer of {} bytes", bytes);
  void* const memory = std::calloc(1, static_cast<std::size_t>(bytes) + kFront + kBufferAlignment);
  if (memory == nullptr) fail_os(Status::no_memory, ENOMEM, "a buffer of {} bytes", bytes);
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  const std::uintptr_t skipped = kBufferAlignment - (address + kFront) % kBufferAlignment + kFront;
  std::byte* const begin = static_cast<std::byte*>(memory) + skipped;
  *reinterpret_cast<void**>(begin - kFront) = memory;
  return begin;
}

bool populate_buffer(std::byte* /*begin*/, std::size_t /*bytes*/) { return false; }

void keep_from_children(std::byte* /*begin*/, std::size_t /*bytes*/) noexcept {}

void free_buffer(std::byte* buffer) noexcept {
  if (buffer != nullptr) std::free(*reinterpret_cast<void**>(buffer - sizeof(void*)));
}

}  // namespace st::io
