// SPDX-License-Identifier: Apache-2.0
#include "core/allocator.hpp"

#include <new>

#include "io/memory.hpp"

namespace st::core {

void* AllocatorResource::do_allocate(std::size_t bytes, std::size_t alignment) {
  if (allocator_.alloc == nullptr) return io::allocate(bytes, alignment);
  void* const memory = allocator_.alloc(allocator_.ctx, bytes, alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

void AllocatorResource::do_deallocate(void* ptr, std::size_t bytes, std::size_t alignment) {
  if (allocator_.alloc == nullptr) return io::deallocate(ptr, bytes, alignment);
  if (allocator_.free != nullptr) allocator_.free(allocator_.ctx, ptr, bytes, alignment);
}

}  // namespace st::core
