// Only the view is kept, neither the section nor a handle for it. While it is there the file cannot be made shorter, and
// older systems refuse to delete or to overwrite it; so files are mapped late, and never for reading.
// SPDX-License-Identifier: Apache-2.0
#include "io/memory.hpp"

#include "io/win32/handle.hpp"

namespace st::io {

// 64 KiB, more than a page.
std::size_t Mapping::granularity() {
  SYSTEM_INFO system{};
  GetSystemInfo(&system);
  return system.dwAllocationGranularity;
}

// The pages of a copy-on-write mapping count against the system's memory and paging files as if all of them had been
// written to: Windows promises no memory that it may not have.
void* Mapping::map(std::intptr_t file, std::uint64_t begin, std::size_t size, MapKind kind, int& os_error) {
  const bool writable = kind == MapKind::copy_on_write;
  // As long as the file is by now: a view beyond that is refused.
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
    // Takes pages that are not locked out of the process. What was written to a copy stays: it goes to a paging file.
    VirtualUnlock(begin + offset, static_cast<std::size_t>(n));
  }
}

}  // namespace st::io
