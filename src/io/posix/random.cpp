// SPDX-License-Identifier: Apache-2.0
#include "io/random.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <chrono>

#include "io/posix/descriptor.hpp"

namespace st::io {

std::uint64_t random_seed() {
  std::uint64_t seed = 0;
  const Descriptor device = open_file(AT_FDCWD, "/dev/urandom", O_RDONLY | O_NOCTTY);
  if (device && read(device.get(), &seed, sizeof seed) == static_cast<ssize_t>(sizeof seed)) return seed;
  // Without a free descriptor, or such a device: the address of the stack and the clock are what is left.
  const auto now = static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  return reinterpret_cast<std::uintptr_t>(&seed) * 0x9E3779B97F4A7C15 ^ now;
}

std::uint64_t hash_seed(const void* table) {
  return (random_seed() ^ reinterpret_cast<std::uintptr_t>(table)) * 0x9E3779B97F4A7C15;
}

}  // namespace st::io
