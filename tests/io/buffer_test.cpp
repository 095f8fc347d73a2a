// The memory of a buffer: aligned, zeroed, and there from the start or page by page.
// SPDX-License-Identifier: Apache-2.0
#include "io/buffer.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "files.hpp"

namespace st::io {
namespace {

TEST(Buffer, OfEverySizeIsAlignedAndZeroed) {
  for (const Pages pages : {Pages::at_once, Pages::as_they_are_touched}) {
    for (const std::size_t bytes :
         {std::size_t{0}, std::size_t{1}, std::size_t{4095}, std::size_t{4096}, std::size_t{4097}, kBufferAlignment - 1,
          kBufferAlignment, kBufferAlignment + 1, 3 * kBufferAlignment, 33 * kBufferAlignment}) {
      std::byte* const buffer = new_buffer(bytes, pages, 2);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer) % kBufferAlignment, 0U) << bytes;
      for (std::size_t i = 0; i < bytes; i += 512) ASSERT_EQ(buffer[i], std::byte{0}) << bytes << ' ' << i;
      if (bytes != 0) buffer[0] = buffer[bytes - 1] = std::byte{1};
      free_buffer(buffer);
    }
  }
  EXPECT_EQ(error_of([] { new_buffer(UINT64_MAX, Pages::as_they_are_touched, 1); }).status, Status::no_memory);
}

TEST(Buffer, HasItsPagesAtOnceUnlessTheyAreToComeAsTheyAreTouched) {
  constexpr std::size_t kBytes = 64 << 20;  // so much that calloc() asks the system for it, whatever was freed before
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  for (const Pages pages : {Pages::at_once, Pages::as_they_are_touched}) {
    std::byte* const buffer = new_buffer(kBytes, pages, 2);
    std::vector<unsigned char> there(kBytes / page);
    ASSERT_EQ(mincore(buffer, kBytes, there.data()), 0);
    const auto count = std::count_if(there.begin(), there.end(), [](unsigned char p) { return (p & 1) != 0; });
    EXPECT_EQ(static_cast<std::size_t>(count), pages == Pages::at_once ? there.size() : 0);
    free_buffer(buffer);
  }
}

}  // namespace
}  // namespace st::io
