// Buffers, mappings and NUMA nodes, as the kernel reports them.
// SPDX-License-Identifier: Apache-2.0
#include "io/memory.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "../../base/sanitizer.hpp"
#include "../files.hpp"
#include "../nothrow.hpp"
#include "../refuse.hpp"
#include "../system.hpp"
#include "io/posix/file.hpp"
#include "io/posix/system.hpp"

namespace {

std::atomic<std::size_t> most{SIZE_MAX};
std::atomic<int> calls{0};

}  // namespace

// Replaces the C library's function. Copies at most `most` bytes.
extern "C" ssize_t process_vm_readv(pid_t pid, const iovec* local, unsigned long locals, const iovec* remote,
                                    unsigned long remotes, unsigned long flags) ST_NOTHROW {
  ++calls;
  iovec shorter = *local;
  shorter.iov_len = std::min<std::size_t>(shorter.iov_len, most);
  return syscall(SYS_process_vm_readv, pid, most == SIZE_MAX ? local : &shorter, locals, remote, remotes, flags);
}

namespace st::io::linux_memory_test {
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

// The kernel might grant it, and end the process when the memory is used.
TEST(Buffer, OfMoreThanTheMachineHasIsRefusedBeforeTheKernelIsAsked) {
  if (!has_linux_io()) GTEST_SKIP() << "this build asks only for the memory";
  const Error error = error_of([] { new_buffer(std::uint64_t{1} << 60, Pages::as_they_are_touched, 1); });
  EXPECT_EQ(error.status, Status::no_memory);
  EXPECT_EQ(error.os_error, 0);
  EXPECT_NE(error.message.find("exceeds"), std::string::npos) << error.message;
}

TEST(Buffer, IsAllocatedIfTheSystemDoesNotReportItsMemory) {
  const int result = in_child([] {
    if (!refuse({SYS_sysinfo}, EPERM)) return 255;
    if (error_of([] { free_buffer(new_buffer(1, Pages::as_they_are_touched, 1)); }).status != Status::ok) return 1;
    if (sizeof(void*) == 4) return 0;  // has room for half of its addresses
    return error_of([] { new_buffer(SIZE_MAX / 2, Pages::as_they_are_touched, 1); }).os_error == ENOMEM ? 0 : 2;
  });
  if (result == 255) GTEST_SKIP() << "this system has no filters of calls";
  EXPECT_EQ(result, 0);
}

TEST(Buffer, ThatIsNoneIsFreed) { free_buffer(nullptr); }

constexpr std::size_t kBytes = 64 << 20;  // large enough that calloc() always requests it from the system

TEST(Buffer, IsGivenBackToTheSystem) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  std::byte* const buffer = new_buffer(kBytes, Pages::as_they_are_touched, 2);
  std::vector<unsigned char> there(kBytes / page);
  ASSERT_EQ(mincore(buffer, kBytes, there.data()), 0);
  free_buffer(buffer);
  EXPECT_EQ(mincore(buffer, kBytes, there.data()), -1);
}

TEST(Memory, IsGivenBackToTheSystem) {
  if (!has_linux_io() || kUnderSanitizer)
    GTEST_SKIP() << "memory is not aligned to pages in this build, or the sanitizer keeps it";
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  void* const memory = allocate(kBytes, 1);
  std::vector<unsigned char> there(kBytes / page);
  ASSERT_EQ(mincore(memory, kBytes, there.data()), 0);
  deallocate(memory, kBytes, 1);
  EXPECT_EQ(mincore(memory, kBytes, there.data()), -1);
}

// Returns the bytes of a new buffer whose pages are allocated.
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

constexpr std::size_t kPages = 4;

// '1' for each resident page of the process, '0' for all others.
std::string pages_there(const std::byte* begin, std::size_t page) {
  const Descriptor map(::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC));
  std::array<std::uint64_t, kPages> entries{};
  const auto at = static_cast<off_t>(reinterpret_cast<std::uintptr_t>(begin) / page * sizeof entries[0]);
  if (::pread(map.get(), entries.data(), sizeof entries, at) != sizeof entries) return "";
  std::string there;
  for (const std::uint64_t entry : entries) there += (entry >> 63) != 0 ? '1' : '0';
  return there;
}

class MappingTest : public FolderTest {};

TEST_F(MappingTest, advice_is_about_every_page_that_has_a_byte_of_the_range) {
  if (!has_linux_io()) GTEST_SKIP() << "this advice does nothing in this build";
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  put(path(), std::string(kPages * page, 'x'));
  const Descriptor file(::open(path().c_str(), O_RDONLY | O_CLOEXEC));
  const struct {
    std::size_t offset, bytes;
    const char* left;
  } cases[] = {
      {0, 1, "0111"},          {page, page, "1011"}, {page + 100, page, "1001"}, {2 * page - 1, 2, "1001"},
      {100, 3 * page, "0000"}, {100, 0, "1111"},     {4 * page - 1, 1, "1110"},
  };
  for (const auto& [offset, bytes, left] : cases) {
    int os_error = 0;
    const Mapping mapping = Mapping::of(file.get(), 0, kPages * page, MapKind::read_only, os_error);
    ASSERT_NE(mapping.data(), nullptr);
    for (std::size_t i = 0; i < kPages; ++i) EXPECT_EQ(mapping.data()[i * page], std::byte{'x'});
    if (pages_there(mapping.data(), page) != "1111") GTEST_SKIP() << "the system does not tell which pages are there";
    mapping.advise(offset, bytes, Advice::dont_need);
    EXPECT_EQ(pages_there(mapping.data(), page), left) << offset << " + " << bytes;
  }
}

TEST_F(MappingTest, one_that_is_assigned_to_is_unmapped) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  put(path(), "xy");
  const Descriptor file(::open(path().c_str(), O_RDONLY | O_CLOEXEC));
  int os_error = 0;
  Mapping mapping = Mapping::of(file.get(), 1, 1, MapKind::read_only, os_error);
  Mapping other = Mapping::of(file.get(), 0, 1, MapKind::read_only, os_error);
  std::byte* const before = mapping.data() - 1;  // where its page begins
  std::byte* const after = other.data();
  unsigned char resident = 0;
  ASSERT_EQ(mincore(before, page, &resident) | mincore(after, page, &resident), 0);
  mapping = std::move(other);
  EXPECT_EQ(mapping.data(), after);
  EXPECT_EQ(mincore(after, page, &resident), 0);
  EXPECT_EQ(mincore(before, page, &resident), -1);
  EXPECT_EQ(errno, ENOMEM);
  EXPECT_EQ(Mapping(std::move(mapping)).data(), after);
  EXPECT_EQ(mincore(after, page, &resident), -1);
  EXPECT_EQ(mapping.data(), nullptr);
}

TEST(Pages, AreCopiedByAsManyCallsAsItTakes) {
  std::string from(10'000, ' ');
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<char>(i * 7 + i / 256);
  std::string to(from.size(), ' ');
  calls = 0;
  most = 3'000;
  errno = EPERM;  // of an earlier call
  const bool copied = copy_from_pages(from.data(), to.data(), from.size());
  most = SIZE_MAX;
  EXPECT_TRUE(copied);
  EXPECT_EQ(to, from);
  EXPECT_GE(calls, has_linux_io() ? 4 : 0);
}

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
    if (policy_of(memory) != kDefault) GTEST_SKIP() << "the system does not report memory policies or has another one";
    prefer_node(static_cast<std::byte*>(memory), page, node);
    EXPECT_EQ(policy_of(memory), node == 0 ? kPreferred : kDefault) << node;
    munmap(memory, page);
  }
}

TEST(Numa, TheSystemIsAskedForEveryNodeThatItCanHave) {
  if (!has_linux_io()) GTEST_SKIP() << "no nodes in this build";
  for (const int node : {-1, 0, 63, 64, 1023, 1024}) {
    const int error = in_child([&] {
      if (!refuse({SYS_mbind}, EXDEV)) return 255;
      std::byte memory{};
      errno = 0;
      prefer_node(&memory, 1, node);
      return errno;
    });
    if (error == 255) GTEST_SKIP() << "this system has no filters of calls";
    EXPECT_EQ(error, node >= 0 && node < 1024 ? EXDEV : 0) << node;
  }
}

}  // namespace
}  // namespace st::io::linux_memory_test
