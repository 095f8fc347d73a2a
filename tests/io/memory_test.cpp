// The memory of headers and tables: aligned as requested, and on huge pages if it is large.
// SPDX-License-Identifier: Apache-2.0
#include "io/memory.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "system.hpp"

namespace st::io::memory_test {
namespace {

TEST(Memory, IsAlignedAsAskedAndToHugePagesWhereItHoldsTwo) {
  constexpr std::size_t kHuge = std::size_t{2} << 20;
  for (const std::size_t bytes : {std::size_t{1}, kHuge, 2 * kHuge - 1, 2 * kHuge, 2 * kHuge + 1, 5 * kHuge}) {
    for (const std::size_t alignment : {std::size_t{1}, std::size_t{64}, std::size_t{4096}, 2 * kHuge}) {
      void* const first = allocate(bytes, alignment);
      void* const second = allocate(bytes, alignment);
      for (void* const memory : {first, second}) {
        const auto address = reinterpret_cast<std::uintptr_t>(memory);
        EXPECT_EQ(address % alignment, 0U) << bytes << ' ' << alignment;
        if (bytes >= 2 * kHuge && has_linux_io()) {
          EXPECT_EQ(address % kHuge, 0U) << bytes << ' ' << alignment;
        }
        static_cast<char*>(memory)[0] = static_cast<char*>(memory)[bytes - 1] = 'x';
      }
      deallocate(first, bytes, alignment);
      deallocate(second, bytes, alignment);
    }
  }
}

// Whether huge pages were requested for this address.
bool is_advised(std::uintptr_t address) {
  std::ifstream maps("/proc/self/smaps");
  bool inside = false;
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    char dash = 0;
    std::istringstream range(line);
    if (range >> std::hex >> begin >> dash >> end && dash == '-') inside = begin <= address && address < end;
    if (inside && line.starts_with("VmFlags:")) return line.find(" hg") != line.npos;
  }
  return false;
}

TEST(Memory, HasHugePagesToItsEnd) {
  if (!has_linux_io()) GTEST_SKIP() << "no huge pages in this build";
  if (!std::filesystem::exists("/sys/kernel/mm/transparent_hugepage")) GTEST_SKIP() << "this system has none";
  constexpr std::size_t kHuge = std::size_t{2} << 20;
  void* const memory = allocate(5 * kHuge, 1);
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  const bool first = is_advised(address);
  const bool last = is_advised(address + 5 * kHuge - 1);
  deallocate(memory, 5 * kHuge, 1);
  EXPECT_TRUE(first);
  EXPECT_TRUE(last);
}

}  // namespace
}  // namespace st::io::memory_test
