// Memory on Linux: huge pages, buffers, NUMA nodes, and the pages of mappings.
// SPDX-License-Identifier: Apache-2.0
#include "io/memory.hpp"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory_resource>

#include "base/checked.hpp"
#include "base/error.hpp"
#include "io/posix/system.hpp"

namespace st::io {

namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kLarge = 2 * kHugePage;

std::size_t alignment_of(std::size_t bytes, std::size_t asked) {
  return bytes >= kLarge ? std::max(asked, kHugePage) : asked;
}

struct Front {
  void* mapping;
  std::size_t mapped;
};

// Returns the size of memory plus swap. With overcommit, Linux would grant more, and kill the process when it is used.
std::uint64_t machine_memory() {
  struct sysinfo info {};
  if (sysinfo(&info) != 0) return UINT64_MAX;
  return (std::uint64_t{info.totalram} + info.totalswap) * info.mem_unit;
}

constexpr int kPreferred = 1;  // MPOL_PREFERRED of linux/mempolicy.h
constexpr unsigned kBits = 8 * sizeof(unsigned long);

}  // namespace

// ---- headers and tables --------------------------------------------------------------------------------------------

void* allocate(std::size_t bytes, std::size_t alignment) {
  void* const memory = std::pmr::new_delete_resource()->allocate(bytes, alignment_of(bytes, alignment));
  // Only whole huge pages: the memory after the last one belongs to other allocations.
  if (bytes >= kLarge) madvise(memory, bytes / kHugePage * kHugePage, MADV_HUGEPAGE);
  return memory;
}

void deallocate(void* memory, std::size_t bytes, std::size_t alignment) {
  std::pmr::new_delete_resource()->deallocate(memory, bytes, alignment_of(bytes, alignment));
}

// ---- buffers -------------------------------------------------------------------------------------------------------

std::byte* reserve_buffer(std::uint64_t bytes) {
  const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  if (const std::uint64_t most = std::min<std::uint64_t>(machine_memory(), SIZE_MAX / 2); bytes > most) {
    fail(Status::no_memory, "a buffer of {} bytes exceeds the {} bytes of memory", bytes, most);
  }
  // Round up to whole huge pages: the system backs no partial one.
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
  return madvise(begin, bytes, MADV_POPULATE_WRITE) == 0;  // fails on older kernels
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

void prefer_node(std::byte* begin, std::size_t bytes, int node) {
  std::array<unsigned long, 1024 / kBits> nodes{};
  if (node < 0 || static_cast<unsigned>(node) >= nodes.size() * kBits) return;
  nodes[static_cast<unsigned>(node) / kBits] = 1UL << (static_cast<unsigned>(node) % kBits);
  syscall(SYS_mbind, begin, bytes, kPreferred, nodes.data(), nodes.size() * kBits + 1, 0);
}

// ---- mappings ------------------------------------------------------------------------------------------------------

int map_without_reserve() { return MAP_NORESERVE; }

void advise_pages(void* begin, std::size_t bytes, Advice advice) {
  madvise(begin, bytes, advice == Advice::will_need ? MADV_WILLNEED : MADV_DONTNEED);
}

bool copy_from_pages(const void* from, void* to, std::size_t n) {
  constexpr std::size_t kMostAtOnce = std::size_t{1} << 30;
  auto* target = static_cast<std::byte*>(to);
  auto* source = static_cast<std::byte*>(const_cast<void*>(from));
  while (n > 0) {
    const iovec local{target, std::min(n, kMostAtOnce)};
    const iovec remote{source, std::min(n, kMostAtOnce)};
    const ssize_t got = process_vm_readv(getpid(), &local, 1, &remote, 1, 0);
    if (got < 0 && (errno == ENOSYS || errno == EPERM)) return copy_through_pipe(source, target, n);  // in a sandbox
    if (got <= 0) return false;
    target += got;
    source += got;
    n -= static_cast<std::size_t>(got);
  }
  return true;
}

}  // namespace st::io
