// A mapping of part of a file, made at once or at the first use, unmapped when it goes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "io/advice.hpp"

namespace st::io {

enum class MapKind : std::uint8_t { read_only, copy_on_write };

class Mapping {
 public:
  Mapping() = default;
  // `file` is a descriptor, on Windows a HANDLE. Empty when the system refuses; `os_error` then says why. A mapping of
  // 0 bytes is empty and no error.
  static Mapping of(std::intptr_t file, std::uint64_t offset, std::uint64_t size, MapKind kind, int& os_error);
  // Read-only, and still to be made; size > 0.
  static Mapping later(std::uint64_t size);

  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping();

  // nullptr while it has to be made.
  std::byte* data() const { return data_.load(std::memory_order_acquire); }
  // Makes what was to be made later, unless another thread was first. nullptr when the system refuses. Any thread.
  std::byte* made(std::intptr_t file, std::uint64_t offset) const;
  bool writable() const { return kind_ == MapKind::copy_on_write; }
  void advise(std::uint64_t offset, std::uint64_t n, Advice advice) const;

 private:
  // Mappings begin at multiples of this, in the file and in memory.
  static std::size_t granularity();
  // nullptr when the system refuses.
  static void* map(std::intptr_t file, std::uint64_t begin, std::size_t size, MapKind kind, int& os_error);
  static void unmap(void* begin, std::size_t size);
  void release();

  mutable std::atomic<std::byte*> data_ = nullptr;  // the byte asked for, not the page it lies on
  std::uint64_t size_ = 0;
  MapKind kind_ = MapKind::read_only;
};

}  // namespace st::io
