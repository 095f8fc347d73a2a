// The memory that an open file keeps, as a std::pmr::memory_resource: from the caller's allocator or from the heap.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory_resource>
#include <mutex>

namespace st::core {

struct Allocator {
  void* ctx = nullptr;
  void* (*alloc)(void* ctx, std::size_t size, std::size_t align) = nullptr;  // null: the heap
  void (*free)(void* ctx, void* ptr, std::size_t size, std::size_t align) = nullptr;
};

class AllocatorResource final : public std::pmr::memory_resource {
 public:
  explicit AllocatorResource(const Allocator& allocator) : allocator_(allocator) {}
  const Allocator& allocator() const { return allocator_; }

 private:
  void* do_allocate(std::size_t bytes, std::size_t alignment) override;
  void do_deallocate(void* ptr, std::size_t bytes, std::size_t alignment) override;
  bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }

  Allocator allocator_;
};

// Memory for many objects that are freed together, such as the headers and tables of a hundred shards. It is allocated
// in blocks of growing size, the large ones on huge pages, and freed with the pool. Any thread.
class Pool final : public std::pmr::memory_resource {
 public:
  explicit Pool(std::size_t first_block, std::pmr::memory_resource* memory)
      : memory_(memory), blocks_(first_block, memory) {}

 private:
  // An object this large is allocated alone and freed at once: an array that grows would leave all its earlier sizes.
  static constexpr std::size_t kAlone = std::size_t{1} << 20;

  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    if (bytes >= kAlone) return memory_->allocate(bytes, alignment);
    const std::lock_guard lock(mutex_);
    return blocks_.allocate(bytes, alignment);
  }
  void do_deallocate(void* ptr, std::size_t bytes, std::size_t alignment) override {
    if (bytes >= kAlone) memory_->deallocate(ptr, bytes, alignment);
  }
  bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }

  std::pmr::memory_resource* memory_;
  std::mutex mutex_;
  std::pmr::monotonic_buffer_resource blocks_;
};

}  // namespace st::core
