// Memory followed by an unreadable page: touching a byte past its end crashes the process. tests/io/SYSTEM makes it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace st::format {

class GuardedMemory {
 public:
  // `beyond`: minimum number of unreadable bytes after the end.
  explicit GuardedMemory(std::size_t bytes, std::size_t beyond = 1);
  GuardedMemory(const GuardedMemory&) = delete;
  GuardedMemory& operator=(const GuardedMemory&) = delete;
  ~GuardedMemory();

  char* end() const { return begin_ + room_; }

 private:
  char* begin_ = nullptr;
  std::size_t room_ = 0;    // whole pages, as are
  std::size_t beyond_ = 0;  // those behind them
};

}  // namespace st::format
