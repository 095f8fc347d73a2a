// Memory on Windows: buffers, mappings, and fallbacks for huge pages and NUMA nodes.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory_resource>

#include "base/error.hpp"
#include "io/memory.hpp"
#include "io/win32/os.hpp"

namespace st::io {

// ---- buffers ------------------------------------------------------------------------------------------------------

namespace {

// Returns the size of memory plus paging files. Checked before a reservation, because some versions of wine accept more
// and spend minutes on it. They also report 0 while another thread makes the process's first query.
std::uint64_t machine_memory() {
  MEMORYSTATUSEX status{};
  status.dwLength = sizeof status;
  const bool is_known = GlobalMemoryStatusEx(&status) != FALSE && status.ullTotalPageFile != 0;
  return is_known ? status.ullTotalPageFile : UINT64_MAX;
}

}  // namespace

// VirtualAlloc() returns zeroed pages, but aligned only to 64 KiB. So reserve extra space for the alignment, and commit
// only the aligned part.
std::byte* reserve_buffer(std::uint64_t bytes) {
  if (const std::uint64_t most = std::min<std::uint64_t>(machine_memory(), SIZE_MAX / 2); bytes > most) {
    fail(Status::no_memory, "a buffer of {} bytes exceeds the {} bytes of memory", bytes, most);
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

// ---- mappings -----------------------------------------------------------------------------------------------------
//
// A Mapping keeps only the view, not the section handle or the file handle. A file with a view cannot be truncated, and
// older systems refuse to delete or overwrite it. So files are mapped as late as possible, and never just to read them.

// 64 KiB, more than a page.
std::size_t Mapping::granularity() {
  SYSTEM_INFO system{};
  GetSystemInfo(&system);
  return system.dwAllocationGranularity;
}

// Windows does not overcommit memory, so all pages of a copy-on-write mapping count against memory and paging files.
void* Mapping::map(std::intptr_t file, std::uint64_t begin, std::size_t size, MapKind kind, int& os_error) {
  const bool writable = kind == MapKind::copy_on_write;
  // The section has the current length of the file. A view beyond that fails.
  const Handle section(CreateFileMappingW(reinterpret_cast<HANDLE>(file), nullptr,
                                          writable ? PAGE_WRITECOPY : PAGE_READONLY, 0, 0, nullptr));
  void* const start = !section ? nullptr
                               : MapViewOfFile(section.get(), writable ? FILE_MAP_COPY : FILE_MAP_READ,
                                               static_cast<DWORD>(begin >> 32), static_cast<DWORD>(begin), size);
  if (start == nullptr) os_error = last_error();
  return start;
}

void Mapping::unmap(void* begin, std::size_t /*size*/) { UnmapViewOfFile(begin); }

void Mapping::advise(std::uint64_t offset, std::uint64_t n, Advice advice) const {
  std::byte* const begin = data();
  if (begin == nullptr || n == 0) return;
  if (advice == Advice::will_need) {
    WIN32_MEMORY_RANGE_ENTRY range{begin + offset, static_cast<std::size_t>(n)};
    PrefetchVirtualMemory(GetCurrentProcess(), 1, &range, 0);
  } else {
    // Unlocking pages that are not locked removes them from the working set. Modified pages of a copy go to a paging
    // file.
    VirtualUnlock(begin + offset, static_cast<std::size_t>(n));
  }
}

// ---- tables, and NUMA nodes ---------------------------------------------------------------------------------------

// Uses no large pages: Windows grants them only to users with a privilege, and never pages them out.
void* allocate(std::size_t bytes, std::size_t alignment) {
  return std::pmr::new_delete_resource()->allocate(bytes, alignment);
}

void deallocate(void* memory, std::size_t bytes, std::size_t alignment) {
  std::pmr::new_delete_resource()->deallocate(memory, bytes, alignment);
}

void prefer_node(std::byte* /*begin*/, std::size_t /*bytes*/, int /*node*/) {}

}  // namespace st::io
