// SPDX-License-Identifier: Apache-2.0
#include "io/win32/mapping.hpp"

#include <limits>
#include <utility>

#include "io/win32/handle.hpp"

namespace st::io {

namespace {

// Views begin at multiples of this in the file and in memory: 64 KiB.
std::size_t granularity() {
  SYSTEM_INFO system{};
  GetSystemInfo(&system);
  return system.dwAllocationGranularity;
}

}  // namespace

Mapping Mapping::of(HANDLE file, std::uint64_t offset, std::uint64_t size, MapKind kind, int& os_error) {
  Mapping mapping;
  os_error = 0;
  if (size == 0) return mapping;
  const std::uint64_t slack = offset % granularity();
  if (size > std::numeric_limits<std::size_t>::max() - slack) {
    os_error = ERROR_NOT_ENOUGH_MEMORY;  // more than this machine can address
    return mapping;
  }
  const bool writable = kind == MapKind::copy_on_write;
  // As long as the file is by now: a view beyond that is refused.
  const Handle section(CreateFileMappingW(file, nullptr, writable ? PAGE_WRITECOPY : PAGE_READONLY, 0, 0, nullptr));
  const std::uint64_t begin = offset - slack;
  void* const start =
      !section ? nullptr
               : MapViewOfFile(section.get(), writable ? FILE_MAP_COPY : FILE_MAP_READ, static_cast<DWORD>(begin >> 32),
                               static_cast<DWORD>(begin), static_cast<std::size_t>(size + slack));
  if (start == nullptr) {
    os_error = last_error();
    return mapping;
  }
  mapping.data_ = static_cast<std::byte*>(start) + slack;
  mapping.size_ = size;
  mapping.kind_ = kind;
  return mapping;
}

Mapping Mapping::later(std::uint64_t size) {
  Mapping mapping;
  mapping.size_ = size;
  return mapping;
}

std::byte* Mapping::made(HANDLE file, std::uint64_t offset) const {
  int refused = 0;
  const Mapping mine = of(file, offset, size_, kind_, refused);
  std::byte* theirs = nullptr;
  if (!data_.compare_exchange_strong(theirs, mine.data(), std::memory_order_acq_rel)) return theirs;
  return mine.data_.exchange(nullptr);
}

Mapping::Mapping(Mapping&& other) noexcept { *this = std::move(other); }

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  if (this == &other) return *this;
  unmap();
  data_ = other.data_.exchange(nullptr);
  size_ = std::exchange(other.size_, 0);
  kind_ = other.kind_;
  return *this;
}

Mapping::~Mapping() { unmap(); }

void Mapping::unmap() {
  std::byte* const begin = data_.exchange(nullptr);
  if (begin == nullptr) return;
  UnmapViewOfFile(begin - reinterpret_cast<std::uintptr_t>(begin) % granularity());
}

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
