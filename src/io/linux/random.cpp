// SPDX-License-Identifier: Apache-2.0
#include "io/random.hpp"

#include <sys/auxv.h>
#include <sys/random.h>

#include <chrono>
#include <cstring>

namespace st::io {

std::uint64_t random_seed() {
  std::uint64_t seed = 0;
  if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) == static_cast<ssize_t>(sizeof seed)) return seed;
  // Early at boot, or under a filter: the address of the stack and the clock are what is left.
  const auto now = static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  return reinterpret_cast<std::uintptr_t>(&seed) * 0x9E3779B97F4A7C15 ^ now;
}

std::uint64_t hash_seed(const void* table) {
  std::uint64_t secret = 0;
  // 16 random bytes that the kernel gives to each program that it starts; the C library guards stacks with the first.
  const auto* const given = reinterpret_cast<const char*>(getauxval(AT_RANDOM));
  if (given != nullptr) std::memcpy(&secret, given + 8, sizeof secret);
  if (secret == 0) secret = random_seed();
  return (secret ^ reinterpret_cast<std::uintptr_t>(table)) * 0x9E3779B97F4A7C15;
}

}  // namespace st::io
