// SPDX-License-Identifier: Apache-2.0
#include "io/random.hpp"

#include <sys/random.h>

#include <atomic>
#include <chrono>

namespace st::io {

namespace {

std::uint64_t secret() {
  std::uint64_t bits = 0;
  if (getrandom(&bits, sizeof bits, GRND_NONBLOCK) == static_cast<ssize_t>(sizeof bits)) return bits;
  // Early at boot, or under a filter: the address of the stack and the clock are what is left.
  const auto now = static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  return reinterpret_cast<std::uintptr_t>(&bits) * 0x9E3779B97F4A7C15 ^ now;
}

}  // namespace

// The system is asked once: that costs as much as reading ten tensors. The seeds of one process differ, and whoever
// knows none of them knows no other.
std::uint64_t random_seed() {
  static const std::uint64_t first = secret();
  static std::atomic<std::uint64_t> count{0};
  std::uint64_t bits = first + count.fetch_add(1, std::memory_order_relaxed) * 0x9E3779B97F4A7C15;
  bits = (bits ^ bits >> 30) * 0xBF58476D1CE4E5B9;
  bits = (bits ^ bits >> 27) * 0x94D049BB133111EB;
  return bits ^ bits >> 31;
}

}  // namespace st::io
