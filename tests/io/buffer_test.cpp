// The memory of a buffer: aligned, zeroed, and there from the start or page by page.
// SPDX-License-Identifier: Apache-2.0
#include "io/buffer.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "files.hpp"
#include "refuse.hpp"

namespace st::io {
namespace {

TEST(Buffer, OfEverySizeIsAlignedAndZeroed) {
  for (const Pages pages : {Pages::at_once, Pages::as_they_are_touched}) {
    for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{4095}, std::size_t{4096},
                                    std::size_t{4097}, kBufferAlignment - 1, kBufferAlignment, kBufferAlignment + 1,
                                    3 * kBufferAlignment, 33 * kBufferAlignment, (std::size_t{64} << 20) - 1}) {
      std::byte* const buffer = new_buffer(bytes, pages, 2);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer) % kBufferAlignment, 0U) << bytes;
      for (std::size_t i = 0; i < bytes; i += 512) ASSERT_EQ(buffer[i], std::byte{0}) << bytes << ' ' << i;
      if (bytes != 0) buffer[0] = buffer[bytes - 1] = std::byte{1};
      free_buffer(buffer);
    }
  }
  EXPECT_EQ(error_of([] { new_buffer(UINT64_MAX, Pages::as_they_are_touched, 1); }).status, Status::no_memory);
}

constexpr std::size_t kBytes = 64 << 20;  // so much that calloc() asks the system for it, whatever was freed before

TEST(Buffer, IsGivenBackToTheSystem) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  std::byte* const buffer = new_buffer(kBytes, Pages::as_they_are_touched, 2);
  std::vector<unsigned char> there(kBytes / page);
  ASSERT_EQ(mincore(buffer, kBytes, there.data()), 0);
  free_buffer(buffer);
  EXPECT_EQ(mincore(buffer, kBytes, there.data()), -1);
}

// How many bytes of a new buffer have their pages.
std::size_t bytes_there(Pages pages) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  std::byte* const buffer = new_buffer(kBytes, pages, 2);
  std::vector<unsigned char> there(kBytes / page);
  EXPECT_EQ(mincore(buffer, kBytes, there.data()), 0);
  free_buffer(buffer);
  const auto count = std::count_if(there.begin(), there.end(), [](unsigned char p) { return (p & 1) != 0; });
  return static_cast<std::size_t>(count) * page;
}

TEST(Buffer, HasItsPagesAtOnceUnlessTheyAreToComeAsTheyAreTouched) {
  EXPECT_EQ(bytes_there(Pages::at_once), kBytes);
  EXPECT_EQ(bytes_there(Pages::as_they_are_touched), 0U);
}

TEST(Buffer, HasItsPagesAtOnceOnOlderKernels) {
  const int result = in_child([] {
    if (!refuse({SYS_madvise}, EINVAL)) return 255;
    return bytes_there(Pages::at_once) == kBytes ? 0 : 1;
  });
  if (result == 255) GTEST_SKIP() << "this system has no filters of calls";
  EXPECT_EQ(result, 0);
}

TEST(Buffer, IsMadeByTheCallersThreadAloneIfThereIsToBeOne) {
  std::vector<long> starts{SYS_clone};
#if defined(SYS_clone3)
  starts.push_back(SYS_clone3);
#endif
  const int result = in_child([&] {
    if (!answer_calls(starts, SECCOMP_RET_KILL_PROCESS)) return 255;
    free_buffer(new_buffer(2 * kBytes, Pages::at_once, 1));
    return 0;
  });
  if (result == 255) GTEST_SKIP() << "this system has no filters of calls";
  EXPECT_EQ(result, 0);
}

}  // namespace
}  // namespace st::io
