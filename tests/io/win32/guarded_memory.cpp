// SPDX-License-Identifier: Apache-2.0
#include "../../format/guarded_memory.hpp"

#include <windows.h>

namespace st::format {

GuardedMemory::GuardedMemory(std::size_t bytes, std::size_t beyond) {
  SYSTEM_INFO system{};
  GetSystemInfo(&system);
  const std::size_t page = system.dwPageSize;
  room_ = (bytes + page - 1) / page * page;
  beyond_ = (beyond + page - 1) / page * page;
  begin_ = static_cast<char*>(VirtualAlloc(nullptr, room_ + beyond_, MEM_RESERVE, PAGE_NOACCESS));
  if (room_ != 0) VirtualAlloc(begin_, room_, MEM_COMMIT, PAGE_READWRITE);
}

GuardedMemory::~GuardedMemory() { VirtualFree(begin_, 0, MEM_RELEASE); }

}  // namespace st::format
