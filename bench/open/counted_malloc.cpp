// malloc and its family, counting the bytes that are held.
//
// The resident set knows pages only, and the kernel counts those in batches: it cannot tell what opening a header of
// ten kilobytes takes. These definitions stand before glibc's for every library of the process, ours and the crates'.
// SPDX-License-Identifier: Apache-2.0
#include "counted_malloc.hpp"

#include <malloc.h>

#include <atomic>
#include <cerrno>
#include <cstddef>

extern "C" {
void* __libc_malloc(std::size_t size);
void* __libc_calloc(std::size_t count, std::size_t size);
void* __libc_realloc(void* ptr, std::size_t size);
void* __libc_memalign(std::size_t align, std::size_t size);
void __libc_free(void* ptr);
}

namespace bench {
namespace {

std::atomic<std::size_t> held{0};
std::atomic<std::size_t> peak{0};

void* gained(void* ptr) {
  if (ptr == nullptr) return nullptr;
  const std::size_t now = held.fetch_add(malloc_usable_size(ptr), std::memory_order_relaxed) + malloc_usable_size(ptr);
  std::size_t before = peak.load(std::memory_order_relaxed);
  while (before < now && !peak.compare_exchange_weak(before, now, std::memory_order_relaxed)) {}
  return ptr;
}

void losing(void* ptr) { held.fetch_sub(malloc_usable_size(ptr), std::memory_order_relaxed); }

}  // namespace

Held held_of_malloc() { return {held.load(), peak.load()}; }
void forget_peak_of_malloc() { peak.store(held.load()); }

}  // namespace bench

extern "C" {

void* malloc(std::size_t size) { return bench::gained(__libc_malloc(size)); }
void* calloc(std::size_t count, std::size_t size) { return bench::gained(__libc_calloc(count, size)); }

// Counted as if the old block went first: a block of pages is moved, not copied.
void* realloc(void* ptr, std::size_t size) {
  const std::size_t before = malloc_usable_size(ptr);
  void* const moved = __libc_realloc(ptr, size);
  if (moved != nullptr || size == 0) bench::held.fetch_sub(before, std::memory_order_relaxed);
  return bench::gained(moved);
}

void* aligned_alloc(std::size_t align, std::size_t size) { return bench::gained(__libc_memalign(align, size)); }
void* memalign(std::size_t align, std::size_t size) { return bench::gained(__libc_memalign(align, size)); }

int posix_memalign(void** out, std::size_t align, std::size_t size) {
  void* const ptr = bench::gained(__libc_memalign(align, size));
  if (ptr == nullptr) return ENOMEM;
  *out = ptr;
  return 0;
}

void free(void* ptr) {
  bench::losing(ptr);
  __libc_free(ptr);
}

}  // extern "C"
