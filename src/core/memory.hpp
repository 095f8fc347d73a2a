// The memory of an open checkpoint, from the caller's allocator or from the heap, as std::pmr::memory_resources.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstring>
#include <memory_resource>
#include <mutex>
#include <new>
#include <span>
#include <utility>

#include "format/header_options.hpp"
#include "io/memory.hpp"

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
  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    if (allocator_.alloc == nullptr) return io::allocate(bytes, alignment);
    void* const memory = allocator_.alloc(allocator_.ctx, bytes, alignment);
    if (memory == nullptr) throw std::bad_alloc();
    return memory;
  }
  void do_deallocate(void* ptr, std::size_t bytes, std::size_t alignment) override {
    if (allocator_.alloc == nullptr) return io::deallocate(ptr, bytes, alignment);
    if (allocator_.free != nullptr) allocator_.free(allocator_.ctx, ptr, bytes, alignment);
  }
  bool do_is_equal(const memory_resource& other) const noexcept override { return this == &other; }

  Allocator allocator_;
};

// Memory for many objects that are freed together, such as the headers and tables of a hundred shards. Allocates blocks
// of growing size, large ones on huge pages, and frees them with the pool. Any thread may allocate.
class Pool final : public std::pmr::memory_resource {
 public:
  explicit Pool(std::size_t first_block, std::pmr::memory_resource* memory)
      : memory_(memory), blocks_(first_block, memory) {}

 private:
  // Objects of at least this size get their own block, and are freed immediately. Otherwise the pool would keep every
  // old block of a growing array.
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

// A copy of a file's text, followed by the zero bytes that its parser needs.
//
// Never parse the live mapping: another process could change it between two reads. This is not a vector, which would
// zero 100 MB only to overwrite them.
class PaddedBuffer {
 public:
  PaddedBuffer() = default;
  PaddedBuffer(std::size_t size, std::pmr::memory_resource* memory)
      : memory_(memory), data_(static_cast<char*>(memory->allocate(size + format::kPadding))), size_(size) {
    std::memset(data_ + size, 0, format::kPadding);
  }
  PaddedBuffer(PaddedBuffer&& other) noexcept { *this = std::move(other); }
  PaddedBuffer& operator=(PaddedBuffer&& other) noexcept {
    std::swap(memory_, other.memory_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~PaddedBuffer() {
    if (data_ != nullptr) memory_->deallocate(data_, size_ + format::kPadding);
  }

  char* data() const { return data_; }
  std::size_t size() const { return size_; }
  std::span<char> bytes() const { return {data_, size_}; }

 private:
  std::pmr::memory_resource* memory_ = nullptr;
  char* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace st::core
