// Copying pages that may be gone: by as many calls as the kernel wants.
// SPDX-License-Identifier: Apache-2.0
#include "io/posix/pages.hpp"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <string>

#include "../nothrow.hpp"
#include "../system.hpp"

namespace {

std::atomic<std::size_t> most{SIZE_MAX};
std::atomic<int> calls{0};

}  // namespace

// Stands before the C library's. Copies no more than `most` bytes.
extern "C" ssize_t process_vm_readv(pid_t pid, const iovec* local, unsigned long locals, const iovec* remote,
                                    unsigned long remotes, unsigned long flags) ST_NOTHROW {
  ++calls;
  iovec shorter = *local;
  shorter.iov_len = std::min<std::size_t>(shorter.iov_len, most);
  return syscall(SYS_process_vm_readv, pid, most == SIZE_MAX ? local : &shorter, locals, remote, remotes, flags);
}

namespace st::io {
namespace {

TEST(Pages, AreCopiedByAsManyCallsAsItTakes) {
  if (!has_linux_io()) GTEST_SKIP() << "this build copies them through a pipe";
  std::string from(10'000, ' ');
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<char>(i * 7 + i / 256);
  std::string to(from.size(), ' ');
  calls = 0;
  most = 3'000;
  const bool copied = copy_from_pages(from.data(), to.data(), from.size());
  most = SIZE_MAX;
  EXPECT_TRUE(copied);
  EXPECT_EQ(to, from);
  EXPECT_GE(calls, 1);
}

}  // namespace
}  // namespace st::io
