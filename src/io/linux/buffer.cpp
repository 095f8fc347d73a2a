// The size lies in a page of its own in front of the buffer, so that giving back needs the address alone.
// SPDX-License-Identifier: Apache-2.0
#include "io/buffer.hpp"

#include <sys/mman.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/checked.hpp"
#include "base/error.hpp"

namespace st::io {

namespace {

struct Front {
  void* mapping;
  std::size_t mapped;
};

// With the swap space. Overcommitting, the system would give more, and kill the process when it is used.
std::uint64_t machine_memory() {
  struct sysinfo info {};
  if (sysinfo(&info) != 0) return UINT64_MAX;
  return (std::uint64_t{info.totalram} + info.totalswap) * info.mem_unit;
}

}  // namespace

std::byte* reserve_buffer(std::uint64_t bytes) {
  const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  if (const std::uint64_t most = std::min<std::uint64_t>(machine_memory(), SIZE_MAX / 2); bytes > most) {
    fail(Status::no_memory, "a buffer of {} bytes, where there are {} of memory", bytes, most);
  }
  // Whole huge pages: the system gives none for a part of one.
  const std::uint64_t size =
      align_up(std::max<std::uint64_t>(bytes, 1), bytes >= kBufferAlignment ? kBufferAlignment : page);
  const auto mapped = static_cast<std::size_t>(size + kBufferAlignment + page);
  void* const mapping = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) fail_os(Status::no_memory, errno, "a buffer of {} bytes", bytes);
  const auto address = reinterpret_cast<std::uintptr_t>(mapping);
  const std::uint64_t skipped = align_up(address + page, kBufferAlignment) - address;
  std::byte* const begin = static_cast<std::byte*>(mapping) + skipped;
  *reinterpret_cast<Front*>(begin - page) = {mapping, mapped};
  madvise(begin, static_cast<std::size_t>(size), MADV_HUGEPAGE);
  return begin;
}

bool populate_buffer([[maybe_unused]] std::byte* begin, [[maybe_unused]] std::size_t bytes) {
#if defined(MADV_POPULATE_WRITE)
  return madvise(begin, bytes, MADV_POPULATE_WRITE) == 0;  // older kernels do not know it
#else
  return false;
#endif
}

void keep_from_children(std::byte* begin, std::size_t bytes) noexcept { madvise(begin, bytes, MADV_DONTFORK); }

void free_buffer(std::byte* buffer) noexcept {
  if (buffer == nullptr) return;
  const Front front = *reinterpret_cast<const Front*>(buffer - sysconf(_SC_PAGESIZE));
  munmap(front.mapping, front.mapped);
}

}  // namespace st::io
