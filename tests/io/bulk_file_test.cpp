// Which way the bytes come, and what the page cache is said to hold.
// SPDX-License-Identifier: Apache-2.0
#include "io/bulk_file.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "files.hpp"
#include "io/residency.hpp"
#include "read_faults.hpp"

namespace st::io {
namespace {

// This thread is told nothing by cachestat(2), as on kernels before 6.5.
bool refuse_cachestat() {
  sock_filter rules[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 451, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{sizeof rules / sizeof *rules, rules};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

// Pages that were never read or written are in no cache, and those that were written just now are.
class ResidencyTest : public FolderTest {
 protected:
  void SetUp() override {
    FolderTest::SetUp();
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
        {7 * page(), 4994 * page(), 2 * page()},  // asked in several parts
        {5, 0, 0},
    };
    for (const auto& [first, bytes, resident] : cases) {
      const auto known = residency(file_.get(), first, bytes);
      ASSERT_TRUE(known);
      EXPECT_EQ(known->resident, resident) << first << " + " << bytes;
    }
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

// To all but the owner, Linux says of every page that it is there.
TEST_F(ResidencyTest, does_not_ask_older_kernels_about_files_of_others) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can be everybody else";
  ASSERT_EQ(chown(path().c_str(), 12345, 12345), 0);
  const auto known = [&] { return refuse_cachestat() ? int{residency(file_.get(), 0, 100).has_value()} : 2; };
  const int owner = as_user(12345, 12345, known);
  if (owner == 2) GTEST_SKIP() << "this system has no filters of calls";
  EXPECT_EQ(owner, 1);
  EXPECT_EQ(as_user(12346, 12346, known), 0);
  EXPECT_EQ(in_child(known), 1);
}

class BulkFileTest : public FolderTest {
 protected:
  static constexpr std::uint64_t kSize = 1 << 20;

  void TearDown() override {
    read_faults::disarm();
    FolderTest::TearDown();
  }

  // Nothing of the file is in the cache, or everything.
  Source source(bool cached) const {
    const Descriptor made(::open(path().c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
    EXPECT_EQ(ftruncate(made.get(), kSize), 0);
    const std::string text(kSize, 'x');
    EXPECT_TRUE(!cached || pwrite(made.get(), text.data(), text.size(), 0) == static_cast<ssize_t>(kSize));
    EXPECT_EQ(fsync(made.get()), 0);
    return Source::file(PlainFile::open(path().c_str()), 0, kSize);
  }

  bool has_direct_reads() const {
    put(path("probe"), "x");
    return static_cast<bool>(Descriptor(::open(path("probe").c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC)));
  }
};

TEST_F(BulkFileTest, goes_the_way_that_was_asked_for_or_that_waits_least) {
  const bool has_direct = has_direct_reads();
  const Way around = has_direct ? Way::direct : Way::wait;
  const struct {
    Cache cache;
    bool cached;
    Way way;
  } cases[] = {
      {Cache::automatic, true, Way::copy}, {Cache::automatic, false, around}, {Cache::through, true, Way::copy},
      {Cache::through, false, Way::wait},  {Cache::around, true, around},     {Cache::around, false, around},
  };
  for (const auto& [cache, cached, way] : cases) {
    const Source bytes = source(cached);
    if (!residency(bytes.file()->descriptor(), 0, 1)) GTEST_SKIP() << "the system does not tell what is cached";
    BulkFile file(bytes, cache);
    EXPECT_EQ(file.way(0, kSize), way) << static_cast<int>(cache) << cached;
    EXPECT_EQ(file.hot(0, kSize), way == Way::copy);
  }
}

TEST_F(BulkFileTest, a_file_is_opened_for_direct_reads_once) {
  const Source bytes = source(false);
  for (const int error : {0, EINVAL}) {
    BulkFile file(bytes, Cache::around);
    read_faults::arm({"open", 0, error == 0 ? 0U : SIZE_MAX, error});
    static_cast<void>(file.way(0, kSize));
    const std::size_t opened = read_faults::calls();
    for (int i = 0; i < 3; ++i) static_cast<void>(file.way(0, kSize));
    read_faults::disarm();
    EXPECT_GT(opened, 0U) << error;
    EXPECT_EQ(read_faults::calls(), opened) << error;
  }
}

TEST_F(BulkFileTest, memory_is_copied_and_callbacks_are_waited_for) {
  const std::string text(100, 'x');
  const Source memory = Source::memory(text.data(), text.size(), nullptr, nullptr);
  const auto read_at = [](void*, std::uint64_t, void*, std::size_t) -> std::int32_t { return 0; };
  const Source callbacks = Source::callbacks({read_at, nullptr, nullptr}, 100);
  for (const Cache cache : {Cache::automatic, Cache::through, Cache::around}) {
    EXPECT_EQ(BulkFile(memory, cache).way(0, 100), Way::copy);
    EXPECT_EQ(BulkFile(callbacks, cache).way(0, 100), Way::wait);
  }
}

// The file's other way is taken for good where direct reads do not work, and once where this memory is the reason.
TEST_F(BulkFileTest, what_becomes_of_a_refused_direct_read) {
  if (!has_direct_reads()) GTEST_SKIP() << "no direct reads in " << folder;
  const struct {
    int error;
    bool told;
    Way afterwards;
  } cases[] = {
      {0, false, Way::direct},        {EINTR, false, Way::direct},  {EINVAL, false, Way::wait},
      {EOPNOTSUPP, false, Way::wait}, {EFAULT, false, Way::direct}, {ENOMEM, false, Way::direct},
      {EIO, true, Way::direct},
  };
  for (const auto& [error, told, afterwards] : cases) {
    const Source bytes = source(false);
    BulkFile file(bytes, Cache::around);
    ASSERT_EQ(file.way(0, kSize), Way::direct);
    const std::uint64_t alignment = file.alignment();
    ASSERT_GE(alignment, 4096U);
    ASSERT_EQ(alignment & (alignment - 1), 0U);
    const std::unique_ptr<void, void (*)(void*)> place(std::aligned_alloc(alignment, alignment), std::free);
    std::memset(place.get(), 'y', alignment);
    const Segment segment{static_cast<std::byte*>(place.get()), alignment};
    read_faults::arm({"read", 0, error == 0 ? 0U : 1U, error});
    std::optional<bool> done;
    const Error failed = error_of([&] { done = file.read(Way::direct, 0, {&segment, 1}, alignment); });
    read_faults::disarm();
    EXPECT_EQ(failed.os_error, told ? error : 0) << error;
    EXPECT_TRUE(told || done == (error == 0 || error == EINTR)) << error;
    EXPECT_TRUE(done != true || static_cast<char*>(place.get())[alignment - 1] == 0) << error;
    EXPECT_EQ(file.way(0, kSize), afterwards) << error;
  }
}

TEST_F(BulkFileTest, a_file_in_memory_is_not_remote) {
  const std::string name = "/dev/shm/" + folder.filename().string();
  const Descriptor made(::open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!made) GTEST_SKIP() << "no /dev/shm";
  EXPECT_FALSE(PlainFile::open(name.c_str()).remote());
  fs::remove(name);
}

}  // namespace
}  // namespace st::io
