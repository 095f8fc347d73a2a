// From VirtualAlloc(), whose pages are zeros. Its reservations begin at multiples of 64 KiB: one is made that is longer by
// the alignment, of which only the buffer itself gets memory.
// SPDX-License-Identifier: Apache-2.0
#include "io/buffer.hpp"

#include <windows.h>

#include <algorithm>
#include <memory>

#include "base/error.hpp"
#include "base/parallel_for.hpp"
#include "io/win32/handle.hpp"

namespace st::io {

namespace {

constexpr std::uint64_t kTouchedBytes = std::uint64_t{64} << 20;
constexpr unsigned kMostThreads = 16;
constexpr std::size_t kPage = 4096;  // no system has shorter ones

void touch(std::byte* begin, std::size_t bytes) {
  for (std::size_t at = 0; at < bytes; at += kPage) const_cast<volatile std::byte&>(begin[at]) = std::byte{0};
}

// With the paging files. Asked for first: some versions of wine promise more, and take minutes to note it down.
std::uint64_t machine_memory() {
  MEMORYSTATUSEX status{};
  status.dwLength = sizeof status;
  return GlobalMemoryStatusEx(&status) != FALSE ? status.ullTotalPageFile : UINT64_MAX;
}

struct FreeBuffer {
  void operator()(std::byte* buffer) const { free_buffer(buffer); }
};

}  // namespace

std::byte* new_buffer(std::uint64_t bytes, Pages pages, unsigned threads) {
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
  std::unique_ptr<std::byte, FreeBuffer> buffer(begin);
  if (pages == Pages::as_they_are_touched) return buffer.release();
  const auto parts = static_cast<std::size_t>((bytes + kTouchedBytes - 1) / kTouchedBytes);
  parallel_for(parts, threads != 0 ? threads : std::min(hardware_threads(), kMostThreads), [&](std::size_t i) {
    const std::uint64_t at = i * kTouchedBytes;
    touch(begin + at, static_cast<std::size_t>(std::min(kTouchedBytes, bytes - at)));
  });
  return buffer.release();
}

void free_buffer(std::byte* buffer) noexcept {
  MEMORY_BASIC_INFORMATION region{};
  if (buffer == nullptr || VirtualQuery(buffer, &region, sizeof region) == 0) return;
  VirtualFree(region.AllocationBase, 0, MEM_RELEASE);
}

}  // namespace st::io
