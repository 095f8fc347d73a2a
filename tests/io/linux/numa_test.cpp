// Which node the pages of a buffer are to be on.
// SPDX-License-Identifier: Apache-2.0
#include "io/numa.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>

#include "../system.hpp"

namespace st::io {
namespace {

constexpr int kDefault = 0;  // of linux/mempolicy.h
constexpr int kPreferred = 1;
constexpr unsigned long kOfAddress = 2;

// -1: the system does not tell.
int policy_of(void* address) {
  int policy = -1;
  std::array<unsigned long, 128> nodes{};
  const long told =
      syscall(SYS_get_mempolicy, &policy, nodes.data(), nodes.size() * 8 * sizeof(unsigned long), address, kOfAddress);
  return told == 0 ? policy : -1;
}

TEST(Numa, ANodeIsPreferredIfTheMachineHasIt) {
  if (!has_linux_io()) GTEST_SKIP() << "no nodes in this build";
  if (access("/sys/devices/system/node/node0", F_OK) != 0) GTEST_SKIP() << "no node 0";
  if (access("/sys/devices/system/node/node1023", F_OK) == 0) GTEST_SKIP() << "more nodes than are known today";
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  for (const int node : {-1, 1023, 1024, 0}) {
    void* const memory = mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    if (policy_of(memory) != kDefault) GTEST_SKIP() << "the system does not tell, or has another policy";
    prefer_node(static_cast<std::byte*>(memory), page, node);
    EXPECT_EQ(policy_of(memory), node == 0 ? kPreferred : kDefault) << node;
    munmap(memory, page);
  }
}

}  // namespace
}  // namespace st::io
