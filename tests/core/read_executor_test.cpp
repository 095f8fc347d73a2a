// Reading a batch: one read puts every byte in its place and touches no other memory, whatever the alignment.
// SPDX-License-Identifier: Apache-2.0
#include "core/read_executor.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "../io/read_faults.hpp"
#include "../io/system.hpp"
#include "io/source.hpp"

namespace st::core::read_executor_test {
namespace {

constexpr std::uint64_t kSize = std::uint64_t{3} << 20;
constexpr std::size_t kPage = 4096;

const std::vector<std::byte>& file_bytes() {
  static const std::vector<std::byte> bytes = [] {
    std::vector<std::byte> made(kSize);
    for (std::size_t i = 0; i < kSize; ++i)
      made[i] = static_cast<std::byte>((i * 31 + (i >> 8) * 17 + (i >> 16)) & 0xFF);
    return made;
  }();
  return bytes;
}

bool is_from_file(const std::byte* place, std::uint64_t begin, std::uint64_t bytes) {
  return std::memcmp(place, file_bytes().data() + begin, static_cast<std::size_t>(bytes)) == 0;
}

class ReadExecutorTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "executorXXXXXX";
    const int file = mkstemp(name.data());
    ASSERT_EQ(::write(file, file_bytes().data(), kSize), static_cast<ssize_t>(kSize));
    ASSERT_EQ(fsync(file), 0);
    close(file);
    path = name;
    source = io::file_source_unless_directory(name.c_str());
  }
  void TearDown() override {
    read_faults::disarm();
    unlink(path.c_str());
  }
  ReadListener counting() {
    ReadListener result;
    result.arrived = [this](std::size_t entry, std::uint64_t bytes) { came.at(entry) += bytes; };
    return result;
  }

  // The ranges arrive with this number of reads, and no other bytes are written.
  void expect_ranges(io::SourceReader& file, io::ReadPath read_path, const std::vector<ReadRequest>& ranges,
                     std::size_t reads) {
    std::fill_n(place.get(), kRoom, std::byte{0xEE});
    came.fill(0);
    ReadBatch batch;
    batch.reader = &file;
    batch.path = read_path;
    batch.ranges = ranges;
    read_faults::arm({"read", SIZE_MAX, 0, 0});
    executor.execute(batch);
    read_faults::disarm();
    if (io::has_linux_io()) {
      EXPECT_EQ(read_faults::calls(), reads);  // otherwise each range and each gap is one
    }
    for (const ReadRequest& range : ranges) {
      ASSERT_EQ(came.at(range.entry), range.bytes);
      ASSERT_TRUE(is_from_file(range.dst, range.begin, range.bytes)) << range.begin << ", " << range.bytes;
      std::fill_n(range.dst, range.bytes, std::byte{0xEE});
    }
    const bool all_equal = std::memcmp(place.get(), place.get() + 1, kRoom - 1) == 0;
    EXPECT_TRUE(all_equal && place[0] == std::byte{0xEE}) << "a byte beside the destinations";
  }

  static constexpr std::size_t kRoom = 2 * kSize;
  std::string path;
  std::unique_ptr<io::Source> source;
  std::array<std::uint64_t, 64> came{};
  const ReadListener listener = counting();
  ReadExecutor executor{listener};
  const std::unique_ptr<std::byte[], void (*)(std::byte*)> place{
      static_cast<std::byte*>(std::aligned_alloc(65536, kRoom)), [](std::byte* memory) { std::free(memory); }};
};

TEST_F(ReadExecutorTest, one_range_from_anywhere_to_anywhere_is_one_read) {
  for (const io::Cache cache : {io::Cache::around, io::Cache::through}) {
    const auto file = source->open_reader(cache);
    const io::ReadPath read_path = file->path_for(0, kSize);
    for (const std::uint64_t begin : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{4095}, std::uint64_t{4096},
                                      std::uint64_t{4097}, std::uint64_t{100'000}}) {
      for (const std::uint64_t bytes :
           {std::uint64_t{1}, std::uint64_t{100}, std::uint64_t{4096}, std::uint64_t{16'384}, std::uint64_t{20'480},
            std::uint64_t{70'000}, std::uint64_t{2} << 20}) {
        for (const std::size_t shift : {0U, 1U, 512U, 3U, 1696U}) {  // the last puts 100,000 at a page's end
          SCOPED_TRACE(testing::Message() << begin << ' ' << bytes << ' ' << shift);
          expect_ranges(*file, read_path, {{0, begin, bytes, place.get() + 65536 + begin % kPage + shift, 3, nullptr}},
                        1);
        }
      }
    }
    EXPECT_EQ(file->path_for(0, kSize), read_path);  // the disk has rejected nothing
  }
}

TEST_F(ReadExecutorTest, ranges_close_together_are_one_read) {
  std::mt19937 random(1);
  const auto pick = [&](std::uint64_t n) { return std::uniform_int_distribution<std::uint64_t>(0, n - 1)(random); };
  for (const io::Cache cache : {io::Cache::around, io::Cache::through}) {
    const auto file = source->open_reader(cache);
    const io::ReadPath read_path = file->path_for(0, kSize);
    for (int round = 0; round < 60; ++round) {
      SCOPED_TRACE(round);
      std::vector<ReadRequest> ranges;
      std::uint64_t at = pick(10'000);
      std::byte* to = place.get() + pick(10'000);
      for (std::size_t entry = 0; entry < 1 + pick(20); ++entry) {
        const std::uint64_t bytes = 1 + pick(round % 2 == 0 ? 60'000 : 500);
        ranges.push_back({0, at, bytes, to, entry, nullptr});
        const bool neighbours = pick(2) == 0;
        at += bytes + (neighbours ? 0 : pick(3000));
        to += bytes + (neighbours ? 0 : pick(5000));
      }
      expect_ranges(*file, read_path, ranges, 1);
    }
    EXPECT_EQ(file->path_for(0, kSize), read_path);
  }
}

// The disk rejects this memory, or all direct reads: the same bytes come through the cache.
TEST_F(ReadExecutorTest, a_refused_direct_read_is_one_through_the_cache) {
  for (const int error : {EFAULT, ENOMEM, EINVAL}) {
    const auto file = source->open_reader(io::Cache::around);
    if (file->path_for(0, kSize) != io::ReadPath::direct) GTEST_SKIP() << "no direct reads in " << testing::TempDir();
    std::fill_n(place.get(), kRoom, std::byte{0xEE});
    ReadBatch batch;
    batch.reader = file.get();
    batch.path = io::ReadPath::direct;
    batch.ranges = {{0, 5, 100'000, place.get() + 5, 0, nullptr}};
    read_faults::arm({"read", 0, 1, error});
    executor.execute(batch);
    read_faults::disarm();
    EXPECT_EQ(read_faults::calls(), 2U);
    ASSERT_TRUE(is_from_file(place.get() + 5, 5, 100'000));
  }
}

}  // namespace
}  // namespace st::core::read_executor_test
