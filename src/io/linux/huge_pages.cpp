// SPDX-License-Identifier: Apache-2.0
#include "io/huge_pages.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <memory_resource>

namespace st::io {

namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kLarge = 2 * kHugePage;

std::size_t alignment_of(std::size_t bytes, std::size_t asked) {
  return bytes >= kLarge ? std::max(asked, kHugePage) : asked;
}

}  // namespace

void* allocate(std::size_t bytes, std::size_t alignment) {
  void* const memory = std::pmr::new_delete_resource()->allocate(bytes, alignment_of(bytes, alignment));
  // Only whole huge pages: what is behind the last one belongs to others.
  if (bytes >= kLarge) madvise(memory, bytes / kHugePage * kHugePage, MADV_HUGEPAGE);
  return memory;
}

void deallocate(void* memory, std::size_t bytes, std::size_t alignment) {
  std::pmr::new_delete_resource()->deallocate(memory, bytes, alignment_of(bytes, alignment));
}

}  // namespace st::io
