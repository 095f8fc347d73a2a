// Which way the bytes come.
// SPDX-License-Identifier: Apache-2.0
#include "io/bulk_file.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string>

#include "files.hpp"
#include "io/posix/residency.hpp"
#include "read_faults.hpp"

namespace st::io {
namespace {

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
