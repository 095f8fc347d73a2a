// Text from a file in memory of our own, with the zero bytes behind it that its reader counts on.
//
// Never the live mapping: another process could change the bytes between two looks at them. Not a vector either,
// which would fill a hundred megabytes with zeros only to overwrite them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstring>
#include <memory_resource>
#include <span>
#include <utility>

#include "format/header_options.hpp"

namespace st::core {

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
