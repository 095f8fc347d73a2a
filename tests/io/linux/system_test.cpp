// Which reads bypass the page cache, and how much of a file it holds.
// SPDX-License-Identifier: Apache-2.0
#include "io/posix/system.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <optional>
#include <thread>

#include "../files.hpp"
#include "../nothrow.hpp"
#include "../refuse.hpp"
#include "../system.hpp"
#include "io/posix/file.hpp"
#include "io/posix/file_source.hpp"

#if defined(STATX_DIOALIGN)

namespace {

struct Answer {
  int error;
  bool known;
  std::uint32_t memory, offset;
};

std::optional<Answer> chosen;
int asked = -1;
int asked_how = 0;

}  // namespace

// Stands before the C library's.
extern "C" int statx(int folder, const char* path, int flags, unsigned mask, struct statx* status) ST_NOTHROW {
  if (!chosen) return static_cast<int>(syscall(SYS_statx, folder, path, flags, mask, status));
  asked = folder;
  asked_how = flags;
  *status = {};
  if (chosen->error != 0) {
    errno = chosen->error;
    return -1;
  }
  status->stx_mask = STATX_BASIC_STATS | (chosen->known ? STATX_DIOALIGN : 0);
  status->stx_dio_mem_align = chosen->memory;
  status->stx_dio_offset_align = chosen->offset;
  return 0;
}

#endif

namespace st::io::linux_system_test {
namespace {

#if defined(STATX_DIOALIGN)

class DirectReadTest : public FolderTest {
 protected:
  void SetUp() override {
    FolderTest::SetUp();
    if (!has_linux_io()) GTEST_SKIP() << "no direct reads in this build";
  }
  void TearDown() override {
    chosen.reset();
    FolderTest::TearDown();
  }
};

TEST_F(DirectReadTest, are_aligned_to_a_page_or_to_more_where_the_disk_wants_it) {
  const struct {
    Answer answer;
    std::uint64_t alignment;
  } cases[] = {
      {{ENOSYS, false, 0, 0}, 4096},
      {{0, false, 0, 0}, 4096},
      {{0, true, 512, 512}, 4096},
      {{0, true, 4, 8192}, 8192},
      {{0, true, 65536, 512}, 65536},
      {{0, true, 512, 65536}, 65536},
      {{0, true, 512, std::uint32_t{1} << 17}, 0},
      {{0, true, std::uint32_t{1} << 17, 512}, 0},
      {{0, true, 0, 0}, 0},  // the file reports none
  };
  for (const auto& [answer, alignment] : cases) {
    chosen = answer;
    EXPECT_EQ(direct_alignment(7), alignment) << answer.memory << ' ' << answer.offset;
    EXPECT_EQ(asked, 7);
    EXPECT_EQ(asked_how, AT_EMPTY_PATH);  // the kernel refuses other flags
  }
}

TEST_F(DirectReadTest, are_asked_about_by_the_descriptor_that_is_read) {
  put(path(), std::string(8192, 'x'));
  if (!Descriptor(::open(path().c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC))) GTEST_SKIP() << "none in " << folder;
  const FileSource source(RegularFile::open(path().c_str()), 0, 8192);
  FileReader file(source, Cache::around);
  chosen = Answer{0, true, 8192, 8192};
  EXPECT_EQ(file.path_for(0, 8192), ReadPath::direct);
  EXPECT_EQ(file.alignment(), 8192U);
  EXPECT_NE(fcntl(asked, F_GETFL) & O_DIRECT, 0);
}

#endif

// cachestat(2) fails in this thread, as on kernels before 6.5.
bool refuse_cachestat() { return refuse({451}, ENOSYS); }

// Pages that were never read or written are not cached; pages just written are.
class ResidencyTest : public FolderTest {
 protected:
  void SetUp() override {
    FolderTest::SetUp();
    if (!has_linux_io()) GTEST_SKIP() << "this build does not ask the page cache";
    file_ = Descriptor(::open(path().c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
    ASSERT_EQ(ftruncate(file_.get(), static_cast<off_t>(kPages * page())), 0);
    for (const std::uint64_t at : {2U, 3U, 7U, 5000U}) {
      ASSERT_EQ(pwrite(file_.get(), "x", 1, static_cast<off_t>(at * page())), 1);
    }
  }

  static std::uint64_t page() { return static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)); }

  void expect_the_pages_that_were_written() const {
    const struct {
      std::uint64_t first, bytes, resident;
    } cases[] = {
        {0, 2 * page(), 0},
        {0, 10 * page(), 3 * page()},
        {2 * page(), 2 * page(), 2 * page()},
        {2 * page() + 100, 50, 50},
        {3 * page() + 100, page(), page()},
        {7 * page() - 1, 2, 2},
        {4 * page(), 3 * page(), 0},
        {8 * page(), 4980 * page(), 0},
        {7 * page(), 4994 * page(), 2 * page()},  // queried in several parts
        {0, 4096 * page(), 3 * page()},           // in one part
        {0, 4103 * page(), 3 * page()},           // page 7 is only in the first part
        {5, 0, 0},
    };
    const Descriptor reading(::open(path().c_str(), O_RDONLY | O_CLOEXEC));
    for (const auto& [first, bytes, resident] : cases) {
      const auto known = residency(reading.get(), first, bytes);
      ASSERT_TRUE(known);
      EXPECT_EQ(known->resident, resident) << first << " + " << bytes;
      EXPECT_TRUE(bytes != 0 || !known->dirty);
    }
    EXPECT_EQ(contents("/proc/self/maps").find(folder.filename().string()), std::string::npos);
  }

  static constexpr std::uint64_t kPages = 6000;
  Descriptor file_;
};

TEST_F(ResidencyTest, counts_the_pages_that_are_there) {
  if (!residency(file_.get(), 0, 1)) GTEST_SKIP() << "the system does not tell";
  expect_the_pages_that_were_written();
}

TEST_F(ResidencyTest, tells_of_what_is_not_on_the_disk_yet) {
  struct {
    std::uint64_t offset, length;
  } range{0, page()};
  std::array<std::uint64_t, 5> answer{};
  if (syscall(451, file_.get(), &range, &answer, 0) != 0) GTEST_SKIP() << "no cachestat";
  ASSERT_EQ(pwrite(file_.get(), "x", 1, 0), 1);
  const auto told = residency(file_.get(), 0, page());
  ASSERT_EQ(syscall(451, file_.get(), &range, &answer, 0), 0);
  if (answer[1] + answer[2] != 0) {  // dirty, or being written
    EXPECT_TRUE(told->dirty);
  }
  ASSERT_EQ(fsync(file_.get()), 0);
  EXPECT_FALSE(residency(file_.get(), 0, kPages * page())->dirty);
}

TEST_F(ResidencyTest, counts_them_on_older_kernels) {
  bool refused = false;
  std::thread([&] {
    refused = refuse_cachestat();
    if (refused) expect_the_pages_that_were_written();
    EXPECT_TRUE(!refused || !residency(-1, 0, 100));
  }).join();
  if (!refused) GTEST_SKIP() << "this system has no filters of calls";
}

// For processes that may not write to the file, Linux reports every page as cached.
TEST_F(ResidencyTest, does_not_ask_older_kernels_about_files_of_others) {
  if (!may_give_files_away()) GTEST_SKIP() << "needs root that may change the owner of files";
  ASSERT_EQ(chown(path().c_str(), 12345, 12345), 0);
  const auto known = [&] { return refuse_cachestat() ? int{residency(file_.get(), 0, 100).has_value()} : 2; };
  const int owner = as_user(12345, 12345, known);
  if (owner == 2) GTEST_SKIP() << "this system has no filters of calls";
  EXPECT_EQ(owner, 1);
  EXPECT_EQ(as_user(12346, 12346, known), 0);
  EXPECT_EQ(in_child(known), 1);
  const auto cached = [&] {
    const FileSource source(RegularFile::open(path().c_str()), 0, kPages * page());
    return refuse_cachestat() ? int{FileReader(source, Cache::automatic).is_cached(2 * page(), 3 * page())} : 2;
  };
  EXPECT_EQ(as_user(12345, 12345, cached), 1);
  EXPECT_EQ(as_user(12346, 12346, cached), 0);
}

}  // namespace
}  // namespace st::io::linux_system_test
