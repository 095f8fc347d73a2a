// The caller's allocator, or malloc, as the standard's memory resource: everything that a file keeps comes from it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory_resource>
#include <mutex>

namespace st::core {

struct Allocator {
  void* ctx = nullptr;
  void* (*alloc)(void* ctx, std::size_t size, std::size_t align) = nullptr;  // null: malloc
  void (*free)(void* ctx, void* ptr, std::size_t size, std::size_t align) = nullptr;
};

class Memory final : public std::pmr::memory_resource {
 public:
  explicit Memory(const Allocator& allocator) : allocator_(allocator) {}
  const Allocator& allocator() const { return allocator_; }

 private:
  void* do_allocate(std::size_t bytes, std::size_t alignment) override;
  void do_deallocate(void* ptr, std::size_t bytes, std::size_t alignment) override;
  bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }

  Allocator allocator_;
};

// Memory for much that ends together, such as the headers and tables of a hundred shards: taken in ever larger blocks,
// of which the large ones lie on huge pages, and given back at the end. Any thread.
class Pool final : public std::pmr::memory_resource {
 public:
  explicit Pool(std::size_t first_block, std::pmr::memory_resource* memory) : blocks_(first_block, memory) {}

 private:
  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    const std::lock_guard lock(mutex_);
    return blocks_.allocate(bytes, alignment);
  }
  void do_deallocate(void* /*ptr*/, std::size_t /*bytes*/, std::size_t /*alignment*/) override {}
  bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }

  std::mutex mutex_;
  std::pmr::monotonic_buffer_resource blocks_;
};

}  // namespace st::core
