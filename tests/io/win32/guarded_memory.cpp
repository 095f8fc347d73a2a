// SPDX-License-Identifier: Apache-2.0
#include "../../format/guarded_memory.hpp"

#include <windows.h>

namespace st::format {

GuardedMemory::GuardedMemory(std::size_t bytes) {
  SYSTEM_INFO system{};
  GetSystemInfo(&system);
  page_ = system.dwPageSize;
  room_ = (bytes + page_ - 1) / page_ * page_;
  begin_ = static_cast<char*>(VirtualAlloc(nullptr, room_ + page_, MEM_RESERVE, PAGE_NOACCESS));
  VirtualAlloc(begin_, room_, MEM_COMMIT, PAGE_READWRITE);
}

GuardedMemory::~GuardedMemory() { VirtualFree(begin_, 0, MEM_RELEASE); }

}  // namespace st::format
