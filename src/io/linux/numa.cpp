// The system call itself: its wrapper is in a library (libnuma) that would have to be linked.
// SPDX-License-Identifier: Apache-2.0
#include "io/numa.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <array>

namespace st::io {

namespace {

constexpr int kPreferred = 1;  // MPOL_PREFERRED of linux/mempolicy.h
constexpr unsigned kBits = 8 * sizeof(unsigned long);

}  // namespace

void prefer_node(std::byte* begin, std::size_t bytes, int node) {
  std::array<unsigned long, 16> nodes{};
  if (node < 0 || static_cast<unsigned>(node) >= nodes.size() * kBits) return;
  nodes[static_cast<unsigned>(node) / kBits] = 1UL << (static_cast<unsigned>(node) % kBits);
  syscall(SYS_mbind, begin, bytes, kPreferred, nodes.data(), nodes.size() * kBits + 1, 0);
}

}  // namespace st::io
