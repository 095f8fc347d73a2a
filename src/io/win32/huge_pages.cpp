// Windows gives large pages only to users with a privilege, and keeps them out of the paging file.
// SPDX-License-Identifier: Apache-2.0
#include "io/memory.hpp"

#include <memory_resource>

namespace st::io {

void* allocate(std::size_t bytes, std::size_t alignment) {
  return std::pmr::new_delete_resource()->allocate(bytes, alignment);
}

void deallocate(void* memory, std::size_t bytes, std::size_t alignment) {
  std::pmr::new_delete_resource()->deallocate(memory, bytes, alignment);
}

}  // namespace st::io
