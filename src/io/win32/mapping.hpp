// A mapping of part of a file, made at once or at the first use, unmapped when it goes.
//
// Only the view is kept, neither the section nor a handle for it. While it is there the file cannot be made shorter, and
// older systems refuse to delete or to overwrite it; so files are mapped late, and never for reading.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <windows.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "io/advice.hpp"

namespace st::io {

// The pages of a copy-on-write mapping count against the system's memory and paging files as if all of them had been
// written to: Windows promises no memory that it may not have.
enum class MapKind : std::uint8_t { read_only, copy_on_write };

class Mapping {
 public:
  Mapping() = default;
  // Empty when the system refuses; `os_error` then says why. A mapping of 0 bytes is empty and no error.
  static Mapping of(HANDLE file, std::uint64_t offset, std::uint64_t size, MapKind kind, int& os_error);
  // Read-only, and still to be made; size > 0.
  static Mapping later(std::uint64_t size);

  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping();

  // nullptr while it has to be made.
  std::byte* data() const { return data_.load(std::memory_order_acquire); }
  // Makes what was to be made later, unless another thread was first. nullptr when the system refuses. Any thread.
  std::byte* made(HANDLE file, std::uint64_t offset) const;
  bool writable() const { return kind_ == MapKind::copy_on_write; }
  void advise(std::uint64_t offset, std::uint64_t n, Advice advice) const;

 private:
  void unmap();

  mutable std::atomic<std::byte*> data_ = nullptr;  // the byte asked for, not the block it lies in
  std::uint64_t size_ = 0;
  MapKind kind_ = MapKind::read_only;
};

}  // namespace st::io
