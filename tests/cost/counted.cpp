// SPDX-License-Identifier: Apache-2.0
#include "counted.hpp"

#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>

namespace {

constexpr std::size_t kLine = 64;

std::atomic<std::uint64_t> work{0};
std::atomic<std::uint64_t> bytes_now{0};
std::atomic<std::uint64_t> bytes_most{0};

void count_lines(std::size_t bytes) { work.fetch_add(1 + bytes / kLine, std::memory_order_relaxed); }

void* counted(void* block) {
  if (block == nullptr) throw std::bad_alloc();
  const std::uint64_t now = bytes_now.fetch_add(malloc_usable_size(block)) + malloc_usable_size(block);
  std::uint64_t most = bytes_most.load();
  while (now > most && !bytes_most.compare_exchange_weak(most, now)) {}
  return block;
}

void release(void* block) {
  if (block != nullptr) bytes_now.fetch_sub(malloc_usable_size(block));
  std::free(block);
}

std::size_t rounded_up(std::size_t size, std::size_t alignment) {
  return (size + alignment - 1) / alignment * alignment;
}

}  // namespace

// Called by the compiler's instrumentation, and by the linker's --wrap.
extern "C" {

void __sanitizer_cov_trace_pc();
void __sanitizer_cov_trace_pc() { work.fetch_add(1, std::memory_order_relaxed); }

void* __real_memcpy(void* to, const void* from, std::size_t n);
void* __real_memmove(void* to, const void* from, std::size_t n);
void* __real_memset(void* to, int byte, std::size_t n);
int __real_memcmp(const void* a, const void* b, std::size_t n);

void* __wrap_memcpy(void* to, const void* from, std::size_t n);
void* __wrap_memmove(void* to, const void* from, std::size_t n);
void* __wrap_memset(void* to, int byte, std::size_t n);
int __wrap_memcmp(const void* a, const void* b, std::size_t n);

void* __wrap_memcpy(void* to, const void* from, std::size_t n) {
  count_lines(n);
  return __real_memcpy(to, from, n);
}

void* __wrap_memmove(void* to, const void* from, std::size_t n) {
  count_lines(n);
  return __real_memmove(to, from, n);
}

void* __wrap_memset(void* to, int byte, std::size_t n) {
  count_lines(n);
  return __real_memset(to, byte, n);
}

int __wrap_memcmp(const void* a, const void* b, std::size_t n) {
  count_lines(n);
  return __real_memcmp(a, b, n);
}
}

void* operator new(std::size_t size) { return counted(std::malloc(std::max<std::size_t>(size, 1))); }
void* operator new(std::size_t size, std::align_val_t alignment) {
  const auto align = static_cast<std::size_t>(alignment);
  return counted(std::aligned_alloc(align, rounded_up(std::max<std::size_t>(size, 1), align)));
}
void operator delete(void* block) noexcept { release(block); }
void operator delete(void* block, std::size_t /*size*/) noexcept { release(block); }
void operator delete(void* block, std::align_val_t /*alignment*/) noexcept { release(block); }
void operator delete(void* block, std::size_t /*size*/, std::align_val_t /*alignment*/) noexcept { release(block); }

namespace st::cost {

Cost cost_of(const std::function<void()>& call) {
  const std::uint64_t bytes_before = bytes_now.load();
  const std::uint64_t work_before = work.load();
  bytes_most.store(bytes_before);
  call();
  return {work.load() - work_before, bytes_most.load() - bytes_before};
}

core::Allocator counted_allocator() {
  return {
      nullptr, [](void*, std::size_t size, std::size_t align) { return ::operator new(size, std::align_val_t(align)); },
      [](void*, void* block, std::size_t, std::size_t align) { ::operator delete(block, std::align_val_t(align)); }};
}

}  // namespace st::cost
