// SPDX-License-Identifier: Apache-2.0
#define _CRT_RAND_S  // declares rand_s(), which asks the system's generator and not that of rand()
#include <stdlib.h>

#include <chrono>

#include "io/os.hpp"

namespace st::io {

std::uint64_t random_seed() {
  unsigned low = 0;
  unsigned high = 0;
  if (rand_s(&low) == 0 && rand_s(&high) == 0) return static_cast<std::uint64_t>(high) << 32 | low;
  // Where that is refused: the address of the stack and the clock are what is left.
  const auto now = static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  return reinterpret_cast<std::uintptr_t>(&low) * 0x9E3779B97F4A7C15 ^ now;
}

std::uint64_t hash_seed(const void* table) {
  return (random_seed() ^ reinterpret_cast<std::uintptr_t>(table)) * 0x9E3779B97F4A7C15;
}

}  // namespace st::io
