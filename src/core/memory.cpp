// SPDX-License-Identifier: Apache-2.0
#include "core/memory.hpp"

#include <new>

namespace st::core {

void* Memory::do_allocate(std::size_t bytes, std::size_t alignment) {
  if (allocator_.alloc == nullptr) return std::pmr::new_delete_resource()->allocate(bytes, alignment);
  void* const memory = allocator_.alloc(allocator_.ctx, bytes, alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

void Memory::do_deallocate(void* ptr, std::size_t bytes, std::size_t alignment) {
  if (allocator_.alloc == nullptr) return std::pmr::new_delete_resource()->deallocate(ptr, bytes, alignment);
  if (allocator_.free != nullptr) allocator_.free(allocator_.ctx, ptr, bytes, alignment);
}

}  // namespace st::core
