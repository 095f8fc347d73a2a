// From VirtualAlloc(), whose pages are zeros. Its reservations begin at multiples of 64 KiB: one is made that is longer by
// the alignment, of which only the buffer itself gets memory.
// SPDX-License-Identifier: Apache-2.0
#include "io/memory.hpp"

#include <windows.h>

#include <algorithm>

#include "base/error.hpp"
#include "io/win32/handle.hpp"

namespace st::io {

namespace {

// With the paging files. Asked for first: some versions of wine promise more, and take minutes to note it down. While
// another thread is the first to ask, they say 0.
std::uint64_t machine_memory() {
  MEMORYSTATUSEX status{};
  status.dwLength = sizeof status;
  const bool is_known = GlobalMemoryStatusEx(&status) != FALSE && status.ullTotalPageFile != 0;
  return is_known ? status.ullTotalPageFile : UINT64_MAX;
}

}  // namespace

std::byte* reserve_buffer(std::uint64_t bytes) {
  if (const std::uint64_t most = std::min<std::uint64_t>(machine_memory(), SIZE_MAX / 2); bytes > most) {
    fail(Status::no_memory, "a buffer of {} bytes, where there are {} of memory", bytes, most);
  }
  const auto size = std::max(static_cast<std::size_t>(bytes), std::size_t{1});
  void* const reserved = VirtualAlloc(nullptr, size + kBufferAlignment, MEM_RESERVE, PAGE_NOACCESS);
  if (reserved == nullptr) fail_os(Status::no_memory, last_error(), "a buffer of {} bytes", bytes);
  const auto address = reinterpret_cast<std::uintptr_t>(reserved);
  std::byte* const begin = static_cast<std::byte*>(reserved) + (kBufferAlignment - address % kBufferAlignment);
  if (VirtualAlloc(begin, size, MEM_COMMIT, PAGE_READWRITE) == nullptr) {
    const int error = last_error();
    VirtualFree(reserved, 0, MEM_RELEASE);
    fail_os(Status::no_memory, error, "a buffer of {} bytes", bytes);
  }
  return begin;
}

bool populate_buffer(std::byte* /*begin*/, std::size_t /*bytes*/) { return false; }

void keep_from_children(std::byte* /*begin*/, std::size_t /*bytes*/) noexcept {}

void free_buffer(std::byte* buffer) noexcept {
  MEMORY_BASIC_INFORMATION region{};
  if (buffer == nullptr || VirtualQuery(buffer, &region, sizeof region) == 0) return;
  VirtualFree(region.AllocationBase, 0, MEM_RELEASE);
}

}  // namespace st::io
