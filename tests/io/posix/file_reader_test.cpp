// Which path the bytes of a file take.
// SPDX-License-Identifier: Apache-2.0
#include "io/posix/file_reader.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "../files.hpp"
#include "../read_faults.hpp"
#include "../system.hpp"
#include "io/posix/residency.hpp"

namespace st::io {
namespace {

class FileReaderTest : public FolderTest {
 protected:
  static constexpr std::uint64_t kSize = 1 << 20;

  void TearDown() override {
    read_faults::disarm();
    FolderTest::TearDown();
  }

  // Nothing of the file is in the cache, or everything.
  FileSource source(bool cached) const {
    const Descriptor made(::open(path().c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
    EXPECT_EQ(ftruncate(made.get(), kSize), 0);
    const std::string text(kSize, 'x');
    EXPECT_TRUE(!cached || pwrite(made.get(), text.data(), text.size(), 0) == static_cast<ssize_t>(kSize));
    EXPECT_EQ(fsync(made.get()), 0);
    return FileSource(PlainFile::open(path().c_str()), 0, kSize);
  }

  bool has_direct_reads() const {
    put(path("probe"), "x");
    return static_cast<bool>(Descriptor(::open(path("probe").c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC)));
  }
};

TEST_F(FileReaderTest, takes_the_path_that_was_asked_for_or_that_waits_least) {
  const bool has_direct = has_direct_reads();
  const ReadPath around = has_direct ? ReadPath::direct : ReadPath::buffered;
  const struct {
    Cache cache;
    bool cached;
    ReadPath read_path;
  } cases[] = {
      {Cache::automatic, true, ReadPath::cached},
      {Cache::automatic, false, around},
      {Cache::through, true, ReadPath::cached},
      {Cache::through, false, ReadPath::buffered},
      {Cache::around, true, around},
      {Cache::around, false, around},
  };
  for (const auto& [cache, cached, read_path] : cases) {
    const FileSource bytes = source(cached);
    if (!residency(bytes.file().descriptor(), 0, 1)) GTEST_SKIP() << "the system does not tell what is cached";
    FileReader file(bytes, cache);
    EXPECT_EQ(file.path_for(0, kSize), read_path) << static_cast<int>(cache) << cached;
    EXPECT_EQ(file.is_cached(0, kSize), read_path == ReadPath::cached);
  }
}

TEST_F(FileReaderTest, a_file_is_opened_for_direct_reads_once) {
  if (!has_linux_io()) GTEST_SKIP() << "no direct reads in this build";
  const FileSource bytes = source(false);
  for (const int error : {0, EINVAL}) {
    FileReader file(bytes, Cache::around);
    read_faults::arm({"open", 0, error == 0 ? 0U : SIZE_MAX, error});
    static_cast<void>(file.path_for(0, kSize));
    const std::size_t opened = read_faults::calls();
    for (int i = 0; i < 3; ++i) static_cast<void>(file.path_for(0, kSize));
    read_faults::disarm();
    EXPECT_GT(opened, 0U) << error;
    EXPECT_EQ(read_faults::calls(), opened) << error;
  }
}

// The other path is taken for good where direct reads do not work, and once where this memory is the reason.
TEST_F(FileReaderTest, what_becomes_of_a_refused_direct_read) {
  if (!has_linux_io()) GTEST_SKIP() << "no direct reads in this build";
  if (!has_direct_reads()) GTEST_SKIP() << "no direct reads in " << folder;
  const struct {
    int error;
    bool told;
    ReadPath afterwards;
  } cases[] = {
      {0, false, ReadPath::direct},        {EINTR, false, ReadPath::direct},  {EINVAL, false, ReadPath::buffered},
      {EOPNOTSUPP, false, ReadPath::buffered}, {EFAULT, false, ReadPath::direct}, {ENOMEM, false, ReadPath::direct},
      {EIO, true, ReadPath::direct},
  };
  for (const auto& [error, told, afterwards] : cases) {
    const FileSource bytes = source(false);
    FileReader file(bytes, Cache::around);
    ASSERT_EQ(file.path_for(0, kSize), ReadPath::direct);
    const auto alignment = static_cast<std::size_t>(file.alignment());
    ASSERT_GE(alignment, 4096U);
    ASSERT_EQ(alignment & (alignment - 1), 0U);
    const std::unique_ptr<void, void (*)(void*)> place(std::aligned_alloc(alignment, alignment), std::free);
    std::memset(place.get(), 'y', alignment);
    const Read read{0, alignment, static_cast<std::byte*>(place.get())};
    read_faults::arm({"read", 0, error == 0 ? 0U : 1U, error});
    std::optional<bool> done;
    const Error failed = error_of([&] { done = file.read_many(ReadPath::direct, {&read, 1}, alignment); });
    read_faults::disarm();
    EXPECT_EQ(failed.os_error, told ? error : 0) << error;
    EXPECT_TRUE(told || done == (error == 0 || error == EINTR)) << error;
    EXPECT_TRUE(done != true || static_cast<char*>(place.get())[alignment - 1] == 0) << error;
    EXPECT_EQ(file.path_for(0, kSize), afterwards) << error;
  }
}

TEST_F(FileReaderTest, a_file_in_memory_is_not_remote) {
  const std::string name = "/dev/shm/" + folder.filename().string();
  const Descriptor made(::open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!made) GTEST_SKIP() << "no /dev/shm";
  EXPECT_FALSE(PlainFile::open(name.c_str()).remote());
  fs::remove(name);
}

// More of them than one call takes.
TEST_F(FileReaderTest, many_neighbours_are_a_few_calls) {
  constexpr std::size_t kReads = 300;
  constexpr std::size_t kBytes = 10;
  std::string text(kReads * kBytes, ' ');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 7 + i / 256);
  put(path(), text);
  const FileSource bytes(PlainFile::open(path().c_str()), 0, text.size());
  FileReader file(bytes, Cache::through);
  std::string got(text.size(), '?');
  std::vector<Read> reads;
  for (std::size_t at = 0; at < got.size(); at += kBytes) {
    reads.push_back({at, kBytes, reinterpret_cast<std::byte*>(got.data() + at)});
  }
  read_faults::arm({"read"});
  EXPECT_TRUE(file.read_many(ReadPath::buffered, reads, got.size()));
  read_faults::disarm();
  EXPECT_TRUE(got == text);
  if (has_linux_io()) {
    EXPECT_EQ(read_faults::calls(), 3U);
  }
}

TEST_F(FileReaderTest, many_threads_read_without_a_descriptor_of_their_own) {
  const FileSource bytes = source(true);
  FileReader file(bytes, Cache::through);
  read_faults::arm({"open", 0, SIZE_MAX, EMFILE});
  std::vector<std::thread> threads;
  for (std::uint64_t number = 0; number < 4; ++number) {
    threads.emplace_back([&file, number] {
      for (std::uint64_t i = number; i < 200; i += 4) {
        std::byte got{};
        const Read read{i, 1, &got};
        EXPECT_TRUE(file.read_many(ReadPath::buffered, {&read, 1}, kSize));
        EXPECT_EQ(got, std::byte{'x'});
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  read_faults::disarm();
  EXPECT_GE(read_faults::calls(), 200U);
}

}  // namespace
}  // namespace st::io
