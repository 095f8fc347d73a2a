// Seeds that no other process can predict.
// SPDX-License-Identifier: Apache-2.0
#include "io/os.hpp"

#include <gtest/gtest.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <set>

#include "../system.hpp"

namespace {

// The result of the system's random number source: -1 for the real one, otherwise this many bytes of kChosen.
std::atomic<int> chosen_bytes{-1};
constexpr std::uint64_t kChosen = 0x0123456789ABCDEF;

}  // namespace

// Stands before the C library's.
extern "C" ssize_t getrandom(void* data, size_t n, unsigned flags) {
  if (chosen_bytes < 0) return syscall(SYS_getrandom, data, n, flags);
  const std::size_t bytes = std::min({n, sizeof kChosen, static_cast<std::size_t>(chosen_bytes)});
  std::memcpy(data, &kChosen, bytes);
  errno = ENOSYS;
  return bytes == 0 ? -1 : static_cast<ssize_t>(bytes);
}

namespace st::io::linux_os_test {
namespace {

class RandomTest : public testing::Test {
 protected:
  void TearDown() override { chosen_bytes = -1; }
};

TEST_F(RandomTest, seeds_differ_and_are_not_zero) {
  std::set<std::uint64_t> seeds{0};
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(seeds.insert(random_seed()).second) << i;
}

TEST_F(RandomTest, the_systems_number_is_the_seed) {
  if (!has_linux_io()) GTEST_SKIP() << "the number is read from a device";
  chosen_bytes = sizeof kChosen;
  EXPECT_EQ(random_seed(), kChosen);
}

TEST_F(RandomTest, without_a_whole_number_of_the_systems_seeds_differ_too) {
  if (!has_linux_io()) GTEST_SKIP() << "the number is read from a device";
  for (const int bytes : {0, 4}) {
    chosen_bytes = bytes;
    const std::uint64_t first = random_seed();
    EXPECT_NE(first, 0U);
    EXPECT_NE(first, kChosen & 0xFFFFFFFF);
    bool differs = false;
    for (int i = 0; i < 1'000'000 && !differs; ++i) differs = random_seed() != first;  // until the clock has moved
    EXPECT_TRUE(differs);
  }
}

TEST_F(RandomTest, every_table_has_a_seed_of_its_own) {
  const int tables[2] = {};
  EXPECT_NE(hash_seed(&tables[0]), hash_seed(&tables[1]));
  if (has_linux_io()) {
    EXPECT_EQ(hash_seed(&tables[0]), hash_seed(&tables[0]));  // no system call, and so no new number
  }
  EXPECT_NE(hash_seed(nullptr), 0U);  // an address alone is no secret
}

}  // namespace
}  // namespace st::io::linux_os_test
