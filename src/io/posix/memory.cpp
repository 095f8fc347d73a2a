// Mappings on POSIX systems.
// SPDX-License-Identifier: Apache-2.0
#include "io/memory.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>

#include "io/posix/file.hpp"
#include "io/posix/system.hpp"

namespace st::io {

std::size_t Mapping::granularity() { return static_cast<std::size_t>(sysconf(_SC_PAGESIZE)); }

void* Mapping::map(std::intptr_t file, std::uint64_t begin, std::size_t size, MapKind kind, int& os_error) {
  const bool writable = kind == MapKind::copy_on_write;
  const int protection = PROT_READ | (writable ? PROT_WRITE : 0);
  const int flags = MAP_PRIVATE | (writable ? map_without_reserve() : 0);
  void* const start = mmap(nullptr, size, protection, flags, static_cast<int>(file), static_cast<off_t>(begin));
  if (start != MAP_FAILED) return start;
  os_error = errno;
  return nullptr;
}

void Mapping::unmap(void* begin, std::size_t size) { munmap(begin, size); }

void Mapping::advise(std::uint64_t offset, std::uint64_t n, Advice advice) const {
  std::byte* const begin = data();
  if (begin == nullptr || n == 0) return;
  // Dropping pages of a copy-on-write mapping would lose the caller's writes.
  if (advice == Advice::dont_need && kind_ == MapKind::copy_on_write) return;
  std::byte* const first = begin + offset;
  const std::size_t slack = reinterpret_cast<std::uintptr_t>(first) % granularity();
  advise_pages(first - slack, static_cast<std::size_t>(n) + slack, advice);
}

// Copies PIPE_BUF bytes at a time, which always fit into an empty pipe.
bool copy_through_pipe(const void* from, void* to, std::size_t n) {
#if defined(PIPE_BUF)
  constexpr std::size_t kAtOnce = PIPE_BUF;
#else
  constexpr std::size_t kAtOnce = _POSIX_PIPE_BUF;
#endif
  Descriptor out;
  Descriptor in;
  if (!open_pipe(out, in)) return false;
  const auto* source = static_cast<const std::byte*>(from);
  auto* target = static_cast<std::byte*>(to);
  while (n > 0) {
    const std::size_t some = std::min(n, kAtOnce);
    const auto wanted = static_cast<ssize_t>(some);
    if (write(in.get(), source, some) != wanted || read(out.get(), target, some) != wanted) return false;
    source += some;
    target += some;
    n -= some;
  }
  return true;
}

}  // namespace st::io
