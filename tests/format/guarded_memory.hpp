// Memory that ends where readable memory ends: a read beyond it ends the process. tests/io/SYSTEM makes it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace st::format {

class GuardedMemory {
 public:
  explicit GuardedMemory(std::size_t bytes);
  GuardedMemory(const GuardedMemory&) = delete;
  GuardedMemory& operator=(const GuardedMemory&) = delete;
  ~GuardedMemory();

  char* end() const { return begin_ + room_; }

 private:
  char* begin_ = nullptr;
  std::size_t room_ = 0;  // whole pages
  std::size_t page_ = 0;
};

}  // namespace st::format
