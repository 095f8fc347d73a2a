// SPDX-License-Identifier: Apache-2.0
#include "../../format/guarded_memory.hpp"

#include <sys/mman.h>
#include <unistd.h>

namespace st::format {

GuardedMemory::GuardedMemory(std::size_t bytes, std::size_t beyond) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  room_ = (bytes + page - 1) / page * page;
  beyond_ = (beyond + page - 1) / page * page;
  void* const memory = mmap(nullptr, room_ + beyond_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  begin_ = static_cast<char*>(memory);
  mprotect(begin_ + room_, beyond_, PROT_NONE);
}

GuardedMemory::~GuardedMemory() { munmap(begin_, room_ + beyond_); }

}  // namespace st::format
