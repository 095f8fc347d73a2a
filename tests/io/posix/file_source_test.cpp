// Files as sources: mapped, read, reopened, and their bulk reads.
// SPDX-License-Identifier: Apache-2.0
#include "io/posix/file_source.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "../files.hpp"
#include "../read_faults.hpp"
#include "../system.hpp"
#include "base/error.hpp"
#include "io/memory.hpp"
#include "io/posix/file.hpp"
#include "io/posix/system.hpp"

namespace st::io::file_source_test {
namespace {

class TestFolder {
 public:
  TestFolder() : path_(fs::temp_directory_path() / "st-source-XXXXXX") {
    std::string name = path_.string();
    path_ = mkdtemp(name.data());
  }
  ~TestFolder() { fs::remove_all(path_); }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;

  std::string file(const std::string& name, const std::string& bytes) const {
    const std::string path = (path_ / name).string();
    std::FILE* const stream = std::fopen(path.c_str(), "wb");
    std::fwrite(bytes.data(), 1, bytes.size(), stream);
    std::fclose(stream);
    return path;
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

std::string counted(std::size_t size) {
  std::string bytes(size, '\0');
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(i * 7 + i / 256);
  return bytes;
}

std::string read(const Source& source, std::uint64_t offset, std::size_t n) {
  std::string bytes(n, '?');
  source.read_at(offset, bytes.data(), n);
  return bytes;
}

template <class Body>
std::optional<Error> problem_of(const Body& body) {
  try {
    body();
  } catch (const Error& error) {
    return error;
  }
  return std::nullopt;
}

constexpr Mode kModes[] = {Mode::automatic, Mode::map, Mode::copy_on_write, Mode::read};

// ---- files -------------------------------------------------------------------------------------------------------------

TEST(FileSource, PartOfAFileAtAnyPlace) {
  const TestFolder folder;
  const std::string bytes = counted(20'000);
  const std::string path = folder.file("file", bytes);
  for (const std::size_t base : {0U, 1U, 100U, 4095U, 4096U, 4097U, 8192U, 19'999U}) {
    for (const Mode mode : kModes) {
      FileSource source(RegularFile::open(path.c_str()), base, bytes.size() - base);
      source.map(mode);
      EXPECT_EQ(source.view() == nullptr, mode == Mode::read);
      EXPECT_EQ(read(source, 0, bytes.size() - base), bytes.substr(base));
      EXPECT_EQ(read(source, source.size() - 1, 1), bytes.substr(bytes.size() - 1));
      if (source.view() == nullptr) continue;
      EXPECT_EQ(std::memcmp(source.view(), bytes.data() + base, bytes.size() - base), 0);
      source.release_descriptor();
      EXPECT_EQ(source.file().descriptor(), -1);
      EXPECT_EQ(read(source, 0, bytes.size() - base), bytes.substr(base));
    }
  }
}

std::size_t mappings_of(const std::string& path) {
  std::ifstream maps("/proc/self/maps");
  std::size_t count = 0;
  for (std::string line; std::getline(maps, line);) count += line.ends_with(path) ? 1U : 0U;
  return count;
}

TEST(FileSource, IsMappedAtTheFirstViewAndNotBefore) {
  const TestFolder folder;
  const std::string bytes = counted(20'000);
  const std::string path = fs::canonical(folder.file("file", bytes)).string();
  for (const std::size_t base : {0U, 4097U}) {
    {
      FileSource source(RegularFile::open(path.c_str()), base, bytes.size() - base);
      source.map_at_first_view();
      source.release_descriptor();  // the mapping will need the descriptor
      EXPECT_EQ(read(source, 7, 100), bytes.substr(base + 7, 100));
      source.advise(0, 100, Advice::will_need);
      EXPECT_FALSE(source.is_mapped());
      EXPECT_EQ(mappings_of(path), 0U);
      EXPECT_EQ(std::memcmp(source.view(), bytes.data() + base, bytes.size() - base), 0);
      EXPECT_EQ(source.view(), source.view());
      EXPECT_TRUE(source.is_mapped());
      EXPECT_EQ(mappings_of(path), 1U);
    }
    EXPECT_EQ(mappings_of(path), 0U);
  }
}

TEST(FileSource, ManyThreadsThatWantAViewGetTheSame) {
  const TestFolder folder;
  const std::string path = fs::canonical(folder.file("file", counted(20'000))).string();
  for (int round = 0; round < 50; ++round) {
    FileSource source(RegularFile::open(path.c_str()), 0, 20'000);
    source.map_at_first_view();
    std::array<const std::byte*, 8> views{};
    std::atomic<int> waiting = 0;
    std::vector<std::thread> threads;
    for (const std::byte*& view : views) {
      threads.emplace_back([&] {
        ++waiting;
        while (waiting < static_cast<int>(views.size())) std::this_thread::yield();
        view = source.view();
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(std::set<const std::byte*>(views.begin(), views.end()).size(), 1U);
    EXPECT_NE(views[0], nullptr);
    EXPECT_EQ(mappings_of(path), 1U);
  }
}

// A host may close the library's descriptor by mistake. The number can then belong to another file.
TEST(FileSource, IsNotMappedFromADescriptorThatBecameAnother) {
  const TestFolder folder;
  const std::string path = folder.file("file", counted(9000));
  FileSource source(RegularFile::open(path.c_str()), 0, 9000);
  source.map_at_first_view();
  const int other = open(folder.file("other", std::string(9000, 'x')).c_str(), O_RDONLY | O_CLOEXEC);
  const int own = dup(source.file().descriptor());
  ASSERT_EQ(dup2(other, source.file().descriptor()), source.file().descriptor());
  EXPECT_EQ(source.view(), nullptr);
  ASSERT_EQ(dup2(own, source.file().descriptor()), source.file().descriptor());
  EXPECT_NE(source.view(), nullptr);
  ASSERT_EQ(dup2(other, source.file().descriptor()), source.file().descriptor());
  EXPECT_NE(source.view(), nullptr);  // what is mapped stays
  close(own);
  close(other);
}

TEST(FileSource, IsNotMappedWhereItHasBecomeShorter) {
  const TestFolder folder;
  const std::string path = folder.file("file", counted(9000));
  FileSource source(RegularFile::open(path.c_str()), 0, 9000);
  source.map_at_first_view();
  ASSERT_EQ(truncate(path.c_str(), 8999), 0);
  EXPECT_EQ(source.view(), nullptr);
}

TEST(ViewFaults, AViewThatTheSystemRefusesMayBeHadLater) {
  const TestFolder folder;
  const std::string bytes = counted(9000);
  FileSource source(RegularFile::open(folder.file("file", bytes).c_str()), 0, bytes.size());
  source.map_at_first_view();
  read_faults::arm({"mmap", 0, SIZE_MAX, ENOMEM});
  EXPECT_EQ(source.view(), nullptr);
  read_faults::disarm();
  EXPECT_EQ(read(source, 0, bytes.size()), bytes);
  ASSERT_NE(source.view(), nullptr);
  EXPECT_EQ(std::memcmp(source.view(), bytes.data(), bytes.size()), 0);
}

TEST(ViewFaults, AMappingThatIsRefusedHasNoAddress) {
  const TestFolder folder;
  const Descriptor file(open(folder.file("file", "abcdef").c_str(), O_RDONLY | O_CLOEXEC));
  int os_error = 0;
  read_faults::arm({"mmap", 0, SIZE_MAX, ENOMEM});
  EXPECT_EQ(Mapping::of(file.get(), 1, 5, MapKind::read_only, os_error).data(), nullptr);
  EXPECT_EQ(os_error, ENOMEM);
  FileSource source(RegularFile::duplicate(file.get()), 1, 5);
  for (const Mode mode : {Mode::automatic, Mode::map, Mode::copy_on_write}) {
    EXPECT_EQ(problem_of([&] { source.map(mode); }).has_value(), mode != Mode::automatic);
  }
  read_faults::disarm();
}

TEST(FileSource, NoBytesAreNotMapped) {
  const TestFolder folder;
  const std::string path = folder.file("empty", "");
  for (const Mode mode : kModes) {
    FileSource source(RegularFile::open(path.c_str()), 0, 0);
    source.map(mode);
    EXPECT_EQ(source.view(), nullptr);
    EXPECT_EQ(read(source, 0, 0), "");
  }
  int os_error = EIO;
  EXPECT_EQ(Mapping::of(-1, 0, 0, MapKind::read_only, os_error).data(), nullptr);
  EXPECT_EQ(os_error, 0);
}

TEST(FileSource, AMappingMovesWithItsSource) {
  const TestFolder folder;
  const std::string bytes = counted(5000);
  FileSource source(RegularFile::open(folder.file("file", bytes).c_str()), 10, 4000);
  source.map(Mode::map);
  const std::byte* const view = source.view();
  EXPECT_EQ(source.view(), view);
  EXPECT_EQ(std::memcmp(source.view(), bytes.data() + 10, 4000), 0);
}

TEST(FileSource, WhatIsWrittenToACopyStaysInTheCopy) {
  const TestFolder folder;
  const std::string bytes = counted(9000);
  const std::string path = folder.file("file", bytes);
  FileSource source(RegularFile::open(path.c_str()), 0, bytes.size());
  source.map(Mode::copy_on_write);
  auto* const view = const_cast<std::byte*>(source.view());
  view[0] = std::byte{0xAB};
  view[8999] = std::byte{0xCD};
  source.advise(0, 9000, Advice::dont_need);
  source.advise(0, 9000, Advice::will_need);
  EXPECT_EQ(view[0], std::byte{0xAB});
  EXPECT_EQ(view[8999], std::byte{0xCD});
  EXPECT_EQ(read(FileSource(RegularFile::open(path.c_str()), 0, bytes.size()), 0, 9000), bytes);
}

// Other processes use it, too.
TEST(FileSource, AdviceAboutAMappingLeavesThePageCacheAsItIs) {
  if (!has_linux_io()) GTEST_SKIP() << "this build does not ask what is cached";
  const TestFolder folder;
  const std::string bytes = counted(256 << 10);
  const std::string path = folder.file("file", bytes);
  const Descriptor other(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_EQ(fsync(other.get()), 0);  // pages that are dirty are not dropped
  FileSource source(RegularFile::open(path.c_str()), 0, bytes.size());
  source.map(Mode::map);
  ASSERT_TRUE(source.is_mapped());
  const auto before = residency(other.get(), 0, bytes.size());
  if (!before) GTEST_SKIP() << "the system does not tell what is cached";
  source.advise(0, bytes.size(), Advice::dont_need);
  const auto after = residency(other.get(), 0, bytes.size());
  ASSERT_TRUE(after);
  EXPECT_EQ(after->resident, before->resident);
}

TEST(FileSource, AFileThatHasBecomeShorterIsAnError) {
  const TestFolder folder;
  const std::string path = folder.file("file", counted(100'000));
  for (const Mode mode : kModes) {
    folder.file("file", counted(100'000));
    FileSource source(RegularFile::open(path.c_str()), 0, 100'000);
    source.map(mode);
    if (source.view() != nullptr) source.release_descriptor();
    ASSERT_EQ(truncate(path.c_str(), 5000), 0);
    EXPECT_EQ(read(source, 4000, 1000), counted(100'000).substr(4000, 1000));
    const auto error = problem_of([&] { read(source, 4000, 1001); });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->status, Status::truncated);
    EXPECT_EQ(error->offset, 5000U);
  }
}

TEST(FileSource, ARenamedFileThatBecameShorterIsTruncated) {
  const TestFolder folder;
  for (const Mode mode : kModes) {
    const std::string path = folder.file("file", counted(9000));
    FileSource source(RegularFile::open(path.c_str()), 0, 9000);
    source.prepare(mode, true);
    fs::rename(path, folder.path() / "renamed");
    ASSERT_EQ(truncate((folder.path() / "renamed").c_str(), 5000), 0);
    const auto error = problem_of([&] { read(source, 4000, 1001); });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->status, Status::truncated);
    EXPECT_EQ(error->offset, 5000U);
  }
}

TEST(FileSource, WithoutItsDescriptorAFileIsKnownByItsName) {
  const TestFolder folder;
  const std::string path = folder.file("file", counted(9000));
  FileSource source(RegularFile::open(path.c_str()), 0, 9000);
  source.map(Mode::map);
  source.release_descriptor();
  EXPECT_EQ(source.overwritten(), Overwritten::no);
  fs::rename(path, folder.path() / "renamed");
  EXPECT_EQ(source.overwritten(), Overwritten::unknown);
  folder.file("file", counted(9000));
  EXPECT_EQ(source.overwritten(), Overwritten::unknown);
  fs::rename(folder.path() / "renamed", path);
  folder.file("file", counted(8000));
  EXPECT_EQ(source.overwritten(), Overwritten::yes);
}

TEST(FileSource, AFailedLookAtAnOpenFileIsAnErrorWithItsErrno) {
  const TestFolder folder;
  const FileSource source(RegularFile::open(folder.file("file", counted(9000)).c_str()), 0, 9000);
  read_faults::arm({"fstat", 0, SIZE_MAX, EIO});
  const auto error = problem_of([&] { source.overwritten(); });
  read_faults::disarm();
  ASSERT_TRUE(error);
  EXPECT_EQ(error->status, Status::read);
  EXPECT_EQ(error->os_error, EIO);
}

TEST(FileSource, AnotherFileUnderTheNameIsNeverRead) {
  const TestFolder folder;
  const std::string path = folder.file("file", counted(1000));
  FileSource source(RegularFile::open(path.c_str()), 0, 1000);
  source.release_descriptor();  // without a mapping, the bytes are lost
  fs::rename(folder.file("other", std::string(1000, 'x')), path);
  const auto error = problem_of([&] { read(source, 0, 10); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->status, Status::read);
  EXPECT_NE(error->message.find(path), std::string::npos);
  EXPECT_EQ(read(source, 0, 0), "");
}

// An offset into a file that is not mapped is not an address.
TEST(FileSource, NoMemoryOfTheProcessIsReadForAFileThatIsGone) {
  constexpr std::size_t kAddress = std::size_t{1} << 30;
  void* const secret =
      mmap(reinterpret_cast<void*>(kAddress), 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (reinterpret_cast<std::uintptr_t>(secret) != kAddress) GTEST_SKIP() << "there is something else";
  const TestFolder folder;
  const std::string path = folder.file("file", "");
  ASSERT_EQ(truncate(path.c_str(), 2 * kAddress), 0);
  FileSource source(RegularFile::open(path.c_str()), 0, 2 * kAddress);
  source.release_descriptor();
  fs::rename(folder.file("other", "other"), path);
  const auto error = problem_of([&] { read(source, kAddress, 10); });
  munmap(secret, 4096);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->status, Status::read);
}

TEST(FileSource, ACopyIsReadFromTheFileAfterTheNameWentElsewhere) {
  const TestFolder folder;
  const std::string bytes = counted(9000);
  for (const std::size_t base : {0U, 100U}) {
    const std::string path = folder.file("file", bytes);
    FileSource source(RegularFile::open(path.c_str()), base, bytes.size() - base);
    source.map(Mode::copy_on_write);
    for (int times = 0; times < 2; ++times) source.release_descriptor();
    const_cast<std::byte*>(source.view())[5] = std::byte{0xAB};
    fs::rename(folder.file("other", std::string(bytes.size(), 'x')), path);
    EXPECT_EQ(read(source, 0, bytes.size() - base), bytes.substr(base));
    EXPECT_EQ(read(source, 7, 100), bytes.substr(base + 7, 100));
    EXPECT_EQ(source.view()[5], std::byte{0xAB});
  }
}

// A disk error must not be mistaken for a path that leads elsewhere: reading the mapping would crash the process.
TEST(ViewFaults, AnErrorOfTheDiskIsToldThoughTheFileIsMapped) {
  const TestFolder folder;
  const std::string bytes = counted(9000);
  const std::string path = folder.file("file", bytes);
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  for (const bool by_path : {false, true}) {
    for (const Mode mode : kModes) {
      FileSource source(by_path ? RegularFile::open(path.c_str()) : RegularFile::duplicate(descriptor), 0, 9000);
      source.map(mode);
      read_faults::arm({"read", 0, 1, EIO});
      const auto error = problem_of([&] { read(source, 0, 10); });
      read_faults::disarm();
      ASSERT_TRUE(error);
      EXPECT_EQ(error->status, Status::read);
      EXPECT_EQ(error->os_error, EIO);
      EXPECT_EQ(read(source, 0, 9000), bytes);
    }
  }
  close(descriptor);
}

TEST(FileSource, OnlyACopyWhoseFileIsMappedTwiceGivesItsDescriptorBack) {
  const TestFolder folder;
  const std::string bytes = counted(9000);
  const std::string path = folder.file("file", bytes);
  FileSource source(RegularFile::open(path.c_str()), 0, bytes.size());
  source.map(Mode::copy_on_write);
  read_faults::arm({"mmap", 0, SIZE_MAX, ENOMEM});
  source.release_descriptor();
  read_faults::disarm();
  const_cast<std::byte*>(source.view())[5] = std::byte{0xAB};
  fs::remove(path);
  EXPECT_EQ(read(source, 0, bytes.size()), bytes);
}

// ---- paths that are not regular files ------------------------------------------------------------------------------------

TEST(RegularFile, OnlyRegularFilesAreOpened) {
  const TestFolder folder;
  const std::string pipe = (folder.path() / "pipe").string();
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  struct Case {
    std::string path;
    const char* says;
    int os_error;
  };
  const Case cases[] = {
      {pipe, "a named pipe", 0},
      {folder.path().string(), "a directory", 0},
      {"/dev/null", "a character device", 0},
      {folder.path().string() + "/absent", "absent", ENOENT},
      {pipe + "/inside", "inside", ENOTDIR},
      {"", "''", ENOENT},
  };
  for (const Case& given : cases) {
    const auto error = problem_of([&] { RegularFile::open(given.path.c_str()); });
    ASSERT_TRUE(error) << given.path;
    EXPECT_EQ(error->status, Status::open) << given.path;
    EXPECT_EQ(error->os_error, given.os_error) << error->message;
    EXPECT_NE(error->message.find(given.says), std::string::npos) << error->message;
  }
}

TEST(RegularFile, WhatTheKernelMakesIsNoFileOfTensors) {
  if (!has_linux_io()) GTEST_SKIP() << "this build does not ask about mounts";
  const auto error = problem_of([] { RegularFile::open("/proc/self/status"); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->status, Status::open);
  EXPECT_NE(error->message.find("generated by the kernel"), std::string::npos) << error->message;
}

// Opening a watchdog device starts it.
TEST(RegularFile, DevicesAreNotEvenOpened) {
  const TestFolder folder;
  const std::string link = (folder.path() / "link").string();
  const std::string path = folder.file("file", "abc");
  fs::create_symlink("/dev/null", link);
  const int inside = open(folder.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  RegularFile file = RegularFile::open(path.c_str());
  file.release_descriptor(false);
  fs::remove(path);
  fs::create_symlink("/dev/null", path);
  struct Case {
    const char* name;
    std::function<void()> opens;
    const char* says;
  };
  const Case cases[] = {
      {"a path", [] { RegularFile::open("/dev/null"); }, "a character device"},
      {"a link", [&] { RegularFile::open(link.c_str()); }, "a character device"},
      {"a shard", [&] { RegularFile::open_at(inside, "link", link, true); }, "a character device"},
      {"a file opened again", [&] { file.reopen(0); }, "no longer the file"},
  };
  for (const Case& given : cases) {
    read_faults::arm({"open", 0, SIZE_MAX, EIO});
    const auto error = problem_of(given.opens);
    read_faults::disarm();
    EXPECT_EQ(read_faults::calls(), 0U) << given.name;
    ASSERT_TRUE(error) << given.name;
    EXPECT_NE(error->message.find(given.says), std::string::npos) << given.name << ": " << error->message;
  }
  EXPECT_EQ(problem_of([&] { RegularFile::open_at(inside, "link", link, false); })->os_error, ELOOP);
  close(inside);
}

TEST(RegularFile, InterruptedOpeningIsTriedAgain) {
  const TestFolder folder;
  const std::string path = folder.file("file", "abc");
  read_faults::arm({"open", 0, 3, EINTR});
  const auto error = problem_of([&] { RegularFile::open(path.c_str()); });
  read_faults::disarm();
  EXPECT_FALSE(error) << error->message;
}

TEST(RegularFile, AnInterruptedReadIsTriedAgain) {
  const TestFolder folder;
  const RegularFile file = RegularFile::open(folder.file("file", "abc").c_str());
  std::string bytes(3, ' ');
  read_faults::arm({"pread", 0, 3, EINTR});
  file.read_at(0, bytes.data(), 3);
  read_faults::disarm();
  EXPECT_EQ(bytes, "abc");
  errno = EINTR;  // of an earlier call
  const auto error = problem_of([&] { file.read_at(3, bytes.data(), 1); });
  EXPECT_EQ(error->status, Status::truncated);
}

TEST(RegularFile, ReportsWhyItCannotBeReopened) {
  if (!has_linux_io()) GTEST_SKIP() << "this build does not reopen files by descriptor";
  const TestFolder folder;
  const RegularFile file = RegularFile::open(folder.file("file", "abc").c_str());
  RegularFile copy = RegularFile::duplicate(file.descriptor());
  RegularFile at_rest = RegularFile::open(folder.file("file", "abc").c_str());
  at_rest.release_descriptor(false);
  for (const RegularFile* const each : {&copy, &at_rest}) {
    read_faults::arm({"open", 0, SIZE_MAX, EMFILE});
    const auto error = problem_of([&] { each->reopen(0); });
    read_faults::disarm();
    ASSERT_TRUE(error);
    EXPECT_EQ(error->os_error, EMFILE);
  }
  read_faults::arm({"open", 0, 1, EACCES});
  EXPECT_FALSE(problem_of([&] { file.reopen(0); }));  // by its path
  read_faults::disarm();
  EXPECT_NE(fcntl(at_rest.reopen(O_APPEND).get(), F_GETFL) & O_APPEND, 0);
}

TEST(RegularFile, OneThatTakesThePlaceRightBeforeTheReopeningIsNotRead) {
  const TestFolder folder;
  const std::string path = folder.file("file", "abc");
  const std::string other = folder.file("other", "xyz");
  RegularFile file = RegularFile::open(path.c_str());
  file.release_descriptor(false);
  read_faults::Plan plan{"open"};
  plan.before = [&](std::size_t) { fs::rename(other, path); };
  read_faults::arm(plan);
  const auto error = problem_of([&] { file.reopen(0); });
  read_faults::disarm();
  ASSERT_TRUE(error);
  EXPECT_NE(error->message.find("no longer the file"), std::string::npos) << error->message;
}

TEST(RegularFile, DescriptorsThatDoNotFitIntoAnInt) {
  const TestFolder folder;
  const RegularFile file = RegularFile::open(folder.file("file", "abc").c_str());
  const std::int64_t descriptor = file.descriptor();
  constexpr std::int64_t kBeyond = std::int64_t{1} << 32;
  for (const std::int64_t wrong : {descriptor + kBeyond, descriptor - kBeyond, std::int64_t{INT_MAX} + 1,
                                   std::int64_t{-1}, std::int64_t{INTPTR_MIN}, std::int64_t{INTPTR_MAX}}) {
    if (wrong < INTPTR_MIN || wrong > INTPTR_MAX) continue;  // on 32 bit none is wider than an int
    const auto error = problem_of([&] { RegularFile::duplicate(static_cast<std::intptr_t>(wrong)); });
    ASSERT_TRUE(error) << wrong;
    EXPECT_EQ(error->os_error, EBADF);
  }
}

TEST(RegularFile, WithoutAPathIsNamedByItsDescriptor) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const auto error = problem_of([&] { RegularFile::duplicate(ends[0]); });
  for (const int end : ends) close(end);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->message.find("the descriptor's file is "), 0U) << error->message;
}

TEST(RegularFile, ADescriptorForDirectReadsIsReadAtAnyPlace) {
  if (!has_linux_io()) GTEST_SKIP() << "no direct reads in this build";
  const TestFolder folder;
  const std::string bytes = counted(9000);
  const std::string path = folder.file("file", bytes);
  const int descriptor = open(path.c_str(), O_RDONLY | O_DIRECT | O_CLOEXEC);
  if (descriptor < 0) GTEST_SKIP() << "no direct reads in " << folder.path();
  fs::remove(path);  // it is the descriptor's file that counts
  const FileSource source(RegularFile::duplicate(descriptor), 0, bytes.size());
  EXPECT_EQ(read(source, 13, 777), bytes.substr(13, 777));
  EXPECT_NE(fcntl(descriptor, F_GETFL) & O_DIRECT, 0);  // the caller's is as it was
  read_faults::arm({"open", 0, SIZE_MAX, EMFILE});
  const auto error = problem_of([&] { RegularFile::duplicate(descriptor); });
  read_faults::disarm();
  EXPECT_EQ(error->os_error, EMFILE);
  close(descriptor);
}

TEST(RegularFile, DescriptorsAreNotInherited) {
  const TestFolder folder;
  const RegularFile file = RegularFile::open(folder.file("file", "abc").c_str());
  EXPECT_NE(fcntl(file.descriptor(), F_GETFD) & FD_CLOEXEC, 0);
  const RegularFile copy = RegularFile::duplicate(file.descriptor());
  EXPECT_NE(copy.descriptor(), file.descriptor());
  EXPECT_NE(fcntl(copy.descriptor(), F_GETFD) & FD_CLOEXEC, 0);
  EXPECT_EQ(copy.size(), 3U);
  Descriptor reads;
  Descriptor writes;
  ASSERT_TRUE(open_pipe(reads, writes));
  for (const Descriptor* const end : {&reads, &writes}) {
    EXPECT_NE(fcntl(end->get(), F_GETFD) & FD_CLOEXEC, 0);
    EXPECT_NE(fcntl(end->get(), F_GETFL) & O_NONBLOCK, 0);
  }
}

// The path is relative to the working directory at open, which may have changed since.
TEST(RegularFile, AtRestNothingChangesWhenItIsLaidToRestAgain) {
  const TestFolder folder;
  folder.file("file", "abcdef");
  const fs::path before = fs::current_path();
  fs::current_path(folder.path());
  RegularFile file = RegularFile::open("file");
  file.release_descriptor(false);
  fs::current_path(before);
  file.release_descriptor(false);
  std::string bytes(6, ' ');
  EXPECT_FALSE(problem_of([&] { file.read_at(0, bytes.data(), 6); }));
  EXPECT_EQ(bytes, "abcdef");
  EXPECT_EQ(file.descriptor(), -1);
}

TEST(RegularFile, ADuplicateKeepsItsDescriptorAtRest) {
  const TestFolder folder;
  const std::string path = folder.file("file", "abcdef");
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  FileSource source(RegularFile::duplicate(descriptor), 2, 3);
  close(descriptor);
  fs::remove(path);
  source.release_descriptor();  // it has no path to be opened by again
  EXPECT_EQ(read(source, 0, 3), "cde");
}

TEST(Mapping, OfMoreThanCanBeAddressedIsOutOfMemory) {
  const TestFolder folder;
  const std::string path = folder.file("file", "abcdef");
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  int os_error = 0;
  EXPECT_EQ(Mapping::of(file.get(), 1, UINT64_MAX, MapKind::read_only, os_error).data(), nullptr);
  EXPECT_EQ(os_error, ENOMEM);
}

class FileReaderTest : public FolderTest {
 protected:
  static constexpr std::uint64_t kSize = 1 << 20;

  void TearDown() override {
    read_faults::disarm();
    FolderTest::TearDown();
  }

  // Either nothing of the file is cached, or everything.
  FileSource source(bool cached) const {
    const Descriptor made(::open(path().c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
    EXPECT_EQ(ftruncate(made.get(), kSize), 0);
    const std::string text(kSize, 'x');
    EXPECT_TRUE(!cached || pwrite(made.get(), text.data(), text.size(), 0) == static_cast<ssize_t>(kSize));
    EXPECT_EQ(fsync(made.get()), 0);
    return FileSource(RegularFile::open(path().c_str()), 0, kSize);
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

// A direct read would wait until the disk has them.
TEST_F(FileReaderTest, a_range_with_bytes_that_are_not_on_the_disk_yet_is_cached) {
  const FileSource bytes = source(false);
  const Descriptor file(::open(path().c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_EQ(pwrite(file.get(), "x", 1, 0), 1);
  const auto is_dirty = [&] {
    const auto known = residency(file.get(), 0, 1);
    return known && known->dirty;
  };
  if (!is_dirty()) GTEST_SKIP() << "the system does not tell what is not on the disk yet";
  const bool cached = FileReader(bytes, Cache::automatic).is_cached(0, kSize);
  EXPECT_TRUE(cached || !is_dirty());
}

// Only samples of so long a range are looked at.
TEST_F(FileReaderTest, a_long_range_is_cached_if_a_third_of_it_is) {
  constexpr std::uint64_t kLong = 64 << 20;
  const struct {
    std::uint64_t begin, end;  // what is cached
    bool cached;
  } cases[] = {
      {0, kLong / 4, false}, {kLong / 4, kLong / 2, false},    {kLong - kLong / 4, kLong, false},
      {0, kLong / 2, true},  {kLong / 4, kLong * 3 / 4, true}, {kLong / 2, kLong, true},
      {0, kLong, true},
  };
  for (const auto& [begin, end, cached] : cases) {
    const Descriptor made(::open(path().c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
    ASSERT_EQ(ftruncate(made.get(), kLong), 0);  // a hole, which is not cached
    const std::string text(static_cast<std::size_t>(end - begin), 'x');
    ASSERT_EQ(pwrite(made.get(), text.data(), text.size(), static_cast<off_t>(begin)),
              static_cast<ssize_t>(text.size()));
    ASSERT_EQ(fsync(made.get()), 0);
    const FileSource bytes(RegularFile::open(path().c_str()), 0, kLong);
    if (!residency(bytes.file().descriptor(), 0, 1)) GTEST_SKIP() << "the system does not tell what is cached";
    FileReader file(bytes, Cache::automatic);
    EXPECT_EQ(file.is_cached(0, kLong), cached) << begin << " to " << end;
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

// If direct reads do not work, all later reads use the other path; if only this memory is the reason, one read does.
TEST_F(FileReaderTest, what_becomes_of_a_refused_direct_read) {
  if (!has_linux_io()) GTEST_SKIP() << "no direct reads in this build";
  if (!has_direct_reads()) GTEST_SKIP() << "no direct reads in " << folder;
  const struct {
    int error;
    bool told;
    ReadPath afterwards;
  } cases[] = {
      {0, false, ReadPath::direct},        {EINTR, false, ReadPath::direct},
      {EINVAL, false, ReadPath::buffered}, {EOPNOTSUPP, false, ReadPath::buffered},
      {EFAULT, false, ReadPath::direct},   {ENOMEM, false, ReadPath::direct},
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
  EXPECT_FALSE(RegularFile::open(name.c_str()).remote());
  fs::remove(name);
}

// More of them than one call accepts.
TEST_F(FileReaderTest, many_neighbours_are_a_few_calls) {
  constexpr std::size_t kReads = 258;
  constexpr std::size_t kBytes = 10;
  std::string text(kReads * kBytes, ' ');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 7 + i / 256);
  put(path(), text);
  const FileSource bytes(RegularFile::open(path().c_str()), 0, text.size());
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

// The bytes behind the last requested one are not read either: the file may end there.
TEST_F(FileReaderTest, bytes_between_two_reads_are_dropped) {
  put(path(), "0123456789");
  const FileSource bytes(RegularFile::open(path().c_str()), 1, 9);
  FileReader file(bytes, Cache::through);
  for (const std::size_t most : {0U, 2U}) {
    std::string got(12, '?');
    auto* const to = reinterpret_cast<std::byte*>(got.data());
    const Read reads[] = {{1, 2, to}, {3, 1, to + 2}, {6, 8, to + 3}};
    read_faults::Plan plan{"open"};
    plan.short_reads = most;
    read_faults::arm(plan);
    for (int times = 0; times < 3; ++times) EXPECT_TRUE(file.read_many(ReadPath::buffered, reads, 10));
    read_faults::disarm();
    EXPECT_EQ(got, "1236789?????") << most;
    EXPECT_LE(read_faults::calls(), 1U);  // its descriptor is used again
  }
}

TEST_F(FileReaderTest, a_part_of_a_file_is_read_without_a_descriptor_of_its_own) {
  put(path(), "0123456789");
  const FileSource bytes(RegularFile::open(path().c_str()), 1, 9);
  FileReader file(bytes, Cache::through);
  std::string got(3, '?');
  const Read read{6, 3, reinterpret_cast<std::byte*>(got.data())};
  read_faults::arm({"open", 0, SIZE_MAX, EMFILE});
  EXPECT_TRUE(file.read_many(ReadPath::buffered, {&read, 1}, 10));
  EXPECT_EQ(got, "678");
}

// Without another descriptor, the reader cannot query the page cache or read directly.
TEST_F(FileReaderTest, a_file_that_cannot_be_opened_again_is_read_through_the_cache) {
  const FileSource bytes = source(true);
  read_faults::arm({"open", 0, SIZE_MAX, EMFILE});
  for (const Cache cache : {Cache::automatic, Cache::through, Cache::around}) {
    EXPECT_EQ(FileReader(bytes, cache).path_for(0, kSize), ReadPath::buffered) << static_cast<int>(cache);
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
}  // namespace st::io::file_source_test
