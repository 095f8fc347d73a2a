// How a plan is cut into batches: every byte once, in order, in batches of the size that the path or the caller
// requires.
// SPDX-License-Identifier: Apache-2.0
#include "core/read_scheduler.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "../io/read_faults.hpp"
#include "format/slice.hpp"
#include "io/source.hpp"

namespace st::core::read_scheduler_test {
namespace {

constexpr std::uint64_t kKiB = 1024;
constexpr std::uint64_t kMiB = 1024 * kKiB;

std::byte place;  // the destination of all bytes, if any were read

std::int32_t no_bytes(void*, std::uint64_t, void*, std::size_t) { return 0; }

using SourcePtr = std::unique_ptr<io::Source>;

// Adjacent reads are one request.
struct JoiningSource final : io::Source {
  JoiningSource() : Source(UINT64_MAX) {}
  void read_at(std::uint64_t, void*, std::size_t) const override {}
  io::Traits traits() const override {
    io::Traits traits;
    traits.joins_reads = true;
    return traits;
  }
};

SourcePtr callbacks(std::uint64_t size) { return io::callback_source({no_bytes, nullptr, nullptr}, size); }

Readers readers_of(std::initializer_list<const io::Source*> sources, io::Cache cache = io::Cache::automatic) {
  Readers readers;
  for (const io::Source* const source : sources) readers.push_back(source->open_reader(cache));
  return readers;
}

std::vector<ReadBatch> batches_of(ReadScheduler& queue) {
  std::vector<ReadBatch> batches;
  ReadBatch batch;
  while (batches.size() < 100'000 && queue.next(batch)) batches.push_back(batch);
  return batches;
}

std::vector<ReadBatch> batches_of(const std::vector<ReadRequest>& requests, const Readers& readers,
                                  const BatchLimits& limits) {
  ReadScheduler queue(requests, readers, limits);
  return batches_of(queue);
}

// A sparse file, which takes no space on the disk.
class SparseFile {
 public:
  explicit SparseFile(std::uint64_t size) {
    std::string name = testing::TempDir() + "schedulerXXXXXX";
    const int file = mkstemp(name.data());
    EXPECT_EQ(ftruncate(file, static_cast<off_t>(size)), 0);
    close(file);
    path_ = name;
    source_ = io::file_source_unless_directory(name.c_str());
  }
  ~SparseFile() { unlink(path_.c_str()); }
  SparseFile(const SparseFile&) = delete;
  SparseFile& operator=(const SparseFile&) = delete;
  const io::Source* source() const { return source_.get(); }

 private:
  std::string path_;
  SourcePtr source_;
};

TEST(ReadScheduler, EndAtMultiplesOfTheirSize) {
  constexpr std::uint64_t kBegin = 1000;
  constexpr std::uint64_t kBytes = 40 * kMiB;
  const SparseFile sparse(kBegin + kBytes);
  const std::string memory(1, 'x');
  const SourcePtr slow = callbacks(kBegin + kBytes);
  const SourcePtr quick = io::memory_source(memory.data(), kBegin + kBytes, nullptr, nullptr);  // never read
  const struct {
    const io::Source* source;
    unsigned threads;
    std::uint64_t chunk;
    std::uint64_t expected;  // 0: by the path, which is the disk's
  } cases[] = {
      {slow.get(), 1, 0, kMiB},
      {slow.get(), 16, 0, kMiB},
      {quick.get(), 1, 0, 8 * kMiB},
      {quick.get(), 2, 0, 4 * kMiB},
      {quick.get(), 16, 0, 2 * kMiB},
      {slow.get(), 1, 4096, 4096},
      {slow.get(), 4, 3 * kMiB, 3 * kMiB},
      {quick.get(), 1, 12'345, 12'345},
      {quick.get(), 1, 20 * kMiB, 20 * kMiB},
      {sparse.source(), 1, 0, 0},
      {sparse.source(), 3, 0, 0},
      {sparse.source(), 8, 0, 0},
      {sparse.source(), 1024, 0, 0},
      {sparse.source(), 2, 2 * kMiB, 2 * kMiB},
  };
  for (const auto& which : cases) {
    SCOPED_TRACE(testing::Message() << which.threads << " threads, " << which.chunk << " bytes");
    const Readers readers = readers_of({which.source}, io::Cache::around);
    const std::vector<ReadRequest> requests{{0, kBegin, kBytes, &place, 7, nullptr}};
    std::uint64_t at = kBegin;
    for (const ReadBatch& batch : batches_of(requests, readers, {which.threads, which.chunk, 0})) {
      std::uint64_t size = which.expected;
      if (size == 0) {
        const std::uint64_t shared = std::clamp(32 / std::uint64_t{which.threads}, std::uint64_t{1}, std::uint64_t{16});
        const std::uint64_t several =
            std::clamp(kBytes / which.threads / 4 / (2 * kMiB), std::uint64_t{1}, std::uint64_t{4});
        size = batch.path == io::ReadPath::direct   ? shared * kMiB
               : batch.path == io::ReadPath::cached ? several * 2 * kMiB
                                                    : kMiB;
      }
      ASSERT_EQ(batch.ranges.size(), 1U);
      const ReadRequest& part = batch.ranges[0];
      ASSERT_EQ(batch.reader, readers[0].get());
      ASSERT_EQ(part.begin, at);
      ASSERT_EQ(part.entry, 7U);
      ASSERT_EQ(part.dst, &place + (at - kBegin));
      ASSERT_EQ(part.bytes, std::min(size - at % size, kBegin + kBytes - at));
      at += part.bytes;
    }
    EXPECT_EQ(at, kBegin + kBytes);
  }
}

TEST(ReadScheduler, AreHalvedDownToALimitWhenTheyTakeTooLong) {
  const SourcePtr slow = callbacks(UINT64_MAX);
  const Readers readers = readers_of({slow.get()});
  const std::vector<ReadRequest> requests{{0, 0, 1000 * kMiB, &place, 0, nullptr}};
  ReadScheduler queue(requests, readers, {1, 64 * kMiB, 0});
  ReadBatch batch;
  for (const std::uint64_t expected :
       {64 * kMiB, 8 * kMiB, 4 * kMiB, 2 * kMiB, kMiB, 512 * kKiB, 256 * kKiB, 128 * kKiB, 128 * kKiB}) {
    ASSERT_TRUE(queue.next(batch));
    EXPECT_EQ(batch.ranges.at(0).bytes, expected);
    queue.slow_down();
  }
}

// One batch has ranges that are close together in one file, up to 400.
TEST(ReadScheduler, HoldNeighboursUpToAGap) {
  const SourcePtr slow = std::make_unique<JoiningSource>();
  const SourcePtr apart = callbacks(UINT64_MAX);
  const SourcePtr quick = io::memory_source("", 1000 * kMiB, nullptr, nullptr);
  const struct {
    const io::Source* source;
    unsigned threads;
    std::uint64_t set;  // by the caller
    std::uint64_t gap;
  } cases[] = {{slow.get(), 1, 0, 128 * kKiB},
               {slow.get(), 2, 0, 64 * kKiB},
               {slow.get(), 8, 0, 16 * kKiB},
               {slow.get(), 9, 0, 16 * kKiB},
               {slow.get(), 1, 77, 77}};
  for (const auto& which : cases) {
    SCOPED_TRACE(testing::Message() << which.threads << " threads, gap " << which.gap);
    const Readers readers = readers_of({which.source, which.source});
    const std::uint64_t near = 100 + which.gap;
    const std::uint64_t far = near + 100 + which.gap + 1;
    const std::vector<ReadRequest> requests{{0, 0, 100, &place, 0, nullptr},
                                            {0, near, 100, &place, 1, nullptr},
                                            {0, far, 100, &place, 2, nullptr},
                                            {1, far + 100, 100, &place, 3, nullptr}};
    const std::vector<ReadBatch> batches = batches_of(requests, readers, {which.threads, 0, which.set});
    ASSERT_EQ(batches.size(), 3U);
    EXPECT_EQ(batches[0].ranges.size(), 2U);
    EXPECT_EQ(batches[0].gap, which.gap);
    EXPECT_EQ(batches[1].ranges.size(), 1U);
    EXPECT_EQ(batches[1].ranges[0].begin, far);
    EXPECT_EQ(batches[2].reader, readers[1].get());
    EXPECT_EQ(batches[2].ranges.at(0).entry, 3U);
  }
  // A gap as expensive as a separate request is not read.
  for (const io::Source* const source : {apart.get(), quick.get()}) {
    const std::vector<ReadRequest> requests{{0, 0, 100, &place, 0, nullptr}, {0, 101, 100, &place, 1, nullptr}};
    EXPECT_EQ(batches_of(requests, readers_of({source}), {1, 0, 77}).size(), 2U);
  }
  const Readers readers = readers_of({quick.get()});
  std::vector<ReadRequest> many;
  for (std::size_t i = 0; i < 1000; ++i) many.push_back({0, 10 * i, 10, &place, i, nullptr});
  std::vector<std::size_t> sizes;
  for (const ReadBatch& batch : batches_of(many, readers, {})) sizes.push_back(batch.ranges.size());
  EXPECT_EQ(sizes, (std::vector<std::size_t>{400, 400, 200}));
  // A batch also ends at a multiple of its size.
  const std::vector<ReadRequest> two{{0, 0, kMiB, &place, 0, nullptr}, {0, kMiB, kMiB, &place, 1, nullptr}};
  for (const ReadBatch& batch : batches_of(two, readers, {1, kMiB, 0})) EXPECT_EQ(batch.ranges.size(), 1U);
}

TEST(ReadScheduler, OfManyCachedBytesAreAsLongAsPossible) {
  const SourcePtr quick = io::memory_source("", 1000 * kMiB, nullptr, nullptr);
  const std::vector<ReadRequest> requests{{0, 0, 1000 * kMiB, &place, 0, nullptr}};
  EXPECT_EQ(batches_of(requests, readers_of({quick.get()}), {16, 0, 0}).front().ranges.at(0).bytes, 8 * kMiB);
}

TEST(ReadScheduler, OfAChosenSizeAreWholeBlocksFrom64KiBToAGiB) {
  for (const auto& [given, usable] : {std::pair<std::uint64_t, std::uint64_t>{0, 0},
                                      {1, 64 * kKiB},
                                      {100 * kKiB + 1, 100 * kKiB},
                                      {UINT64_MAX, 1024 * kMiB}}) {
    EXPECT_EQ(usable_chunk(given), usable) << given;
  }
}

// A byte requested twice is never in one batch twice, because the ranges of a batch do not overlap.
// Its reads of adjacent tensors are to wait for it at the same time.
TEST(ReadScheduler, OfASourceThatAnswersSeveralAtOnceHoldOneRange) {
  const struct {
    unsigned parallel;
    std::uint64_t gap_bytes;  // not 0: neighbours are one request
    std::size_t batches;
  } cases[] = {{0, 0, 1}, {1, 0, 1}, {16, 0, 8}, {16, 1, 1}};
  for (const auto& [parallel, gap_bytes, batches] : cases) {
    io::Callbacks callbacks{no_bytes, nullptr, nullptr};
    callbacks.parallel = parallel;
    callbacks.gap_bytes = gap_bytes;
    const SourcePtr source = io::callback_source(callbacks, kMiB);
    std::vector<ReadRequest> requests;
    for (std::uint64_t i = 0; i < 8; ++i) requests.push_back({0, i * kKiB, kKiB, &place});
    EXPECT_EQ(batches_of(requests, readers_of({source.get()}), {}).size(), batches) << parallel;
  }
}

TEST(ReadScheduler, ThatOverlapAreCutApart) {
  const SourcePtr quick = io::memory_source("", 1000, nullptr, nullptr);
  const SourcePtr slow = std::make_unique<JoiningSource>();
  const std::vector<ReadRequest> requests{{0, 0, 100, &place, 0, nullptr},
                                          {0, 0, 100, &place, 1, nullptr},
                                          {0, 99, 100, &place, 2, nullptr},
                                          {0, 199, 1, &place, 3, nullptr}};
  for (const io::Source* const source : {quick.get(), slow.get()}) {
    for (const std::uint64_t gap : {std::uint64_t{0}, UINT64_MAX}) {
      const Readers readers = readers_of({source});
      const std::vector<ReadBatch> batches = batches_of(requests, readers, {1, 0, gap});
      ASSERT_EQ(batches.size(), 3U) << gap;
      EXPECT_EQ(batches[2].ranges.size(), 2U);
    }
  }
}

// A slice of some columns of a tensor U8 [rows, columns], which has a table of its own.
struct Matrix {
  Matrix(std::uint64_t rows, std::uint64_t columns) : shape{rows, columns, 0} {
    tensor.dims = shape.data();
    tensor.rank = 2;
    tensor.dtype_number = static_cast<std::uint32_t>(Dtype::U8) & 0x1F;
    tensor.end = rows * columns;
  }
  format::Slice columns(std::int64_t from, std::int64_t to) const {
    const std::int64_t begin[] = {0, from};
    const std::int64_t end[] = {INT64_MAX, to};
    return format::slice(tensor, begin, end, nullptr);
  }

  std::vector<std::uint64_t> shape;
  format::Tensor tensor;
};

// Each run is cut into separate batches, and the next run begins where the last one ended.
TEST(ReadScheduler, OfLongRunsAreEveryByteOfEachRunOnce) {
  constexpr std::uint64_t kRows = 3;
  constexpr std::uint64_t kColumns = 5 * kMiB;
  constexpr std::uint64_t kRun = 2 * kMiB + 100;
  constexpr std::uint64_t kFrom = 1000;
  const Matrix matrix(kRows, kColumns);
  const format::Slice slice = matrix.columns(kFrom, kFrom + kRun);
  const SourcePtr slow = callbacks(UINT64_MAX);
  const Readers readers = readers_of({slow.get()});
  constexpr std::uint64_t kBase = 77;
  const std::vector<ReadRequest> requests{{0, kBase + slice.src_begin, kRows * kColumns, &place, 3, &slice},
                                          {0, kBase + kRows * kColumns, 10, &place, 4, nullptr}};
  const std::vector<ReadBatch> batches = batches_of(requests, readers, {1, kMiB, 0});
  std::size_t next = 0;
  for (std::uint64_t row = 0; row < kRows; ++row) {
    for (std::uint64_t taken = 0; taken < kRun; ++next) {
      ASSERT_LT(next, batches.size());
      ASSERT_EQ(batches[next].ranges.size(), 1U);
      const ReadRequest& part = batches[next].ranges[0];
      const std::uint64_t at = kBase + row * kColumns + kFrom + taken;
      ASSERT_EQ(part.begin, at);
      ASSERT_EQ(part.dst, &place + (row * kRun + taken));
      ASSERT_EQ(part.bytes, std::min(kMiB - at % kMiB, kRun - taken));
      ASSERT_EQ(part.entry, 3U);
      taken += part.bytes;
    }
  }
  ASSERT_EQ(batches.size(), next + 1);
  EXPECT_EQ(batches[next].ranges.at(0).entry, 4U);
}

TEST(ReadScheduler, OfShortRunsAreEveryRunOnce) {
  const Matrix matrix(10'000, 1000);
  const SourcePtr slow = callbacks(UINT64_MAX);
  for (const std::int64_t width : {1, 10, 500, 999}) {
    SCOPED_TRACE(width);
    const format::Slice slice = matrix.columns(1, 1 + width);
    const Readers readers = readers_of({slow.get()});
    const std::vector<ReadRequest> requests{{0, slice.src_begin, 10'000'000, &place, 3, &slice}};
    std::uint64_t first = 0;
    for (const ReadBatch& batch : batches_of(requests, readers, {1, kMiB, 0})) {
      ASSERT_TRUE(batch.ranges.empty());
      ASSERT_EQ(batch.request, requests.data());
      ASSERT_EQ(batch.first_run, first);
      ASSERT_GT(batch.runs, 0U);
      // A mebibyte of the file.
      const std::uint64_t left = 10'000 - first;
      ASSERT_GE(batch.runs, std::min<std::uint64_t>(left, (kMiB - kMiB / 16) / 1000));
      ASSERT_LE(batch.runs, kMiB / 1000 + 1);
      ASSERT_EQ(batch.room, kMiB - kMiB / 16);
      first += batch.runs;
    }
    EXPECT_EQ(first, 10'000U);
  }
}

// One thread once made all requests of a column, and a cancel had to wait for them.
TEST(ReadScheduler, RunsThatAreRequestsAreSharedOut) {
  constexpr std::uint64_t kRows = 6000;
  const Matrix matrix(kRows, 512 * kKiB);
  const format::Slice slice = matrix.columns(7, 8);
  const SourcePtr source = callbacks(UINT64_MAX);
  const Readers readers = readers_of({source.get()});
  const std::vector<ReadRequest> requests{{0, slice.src_begin, kRows * 512 * kKiB, &place, 0, &slice}};
  for (const unsigned threads : {1U, 16U}) {
    const std::vector<ReadBatch> batches = batches_of(requests, readers, {threads, 0, 0});
    EXPECT_GE(batches.size(), kRows / 64);
    std::uint64_t runs = 0;
    for (const ReadBatch& batch : batches) runs += batch.runs;
    EXPECT_EQ(runs, kRows);
  }
}

// Narrow columns on a web server were once read by two threads, because they span two chunks. With every other column of
// 256, some gaps are read and others are not.
TEST(ReadScheduler, RunsOfASourceThatAnswersSeveralAtOnceAreARequestEach) {
  const Matrix matrix(1024, 16 * kKiB);
  const std::int64_t begin[] = {0, 0};
  const std::int64_t end[] = {INT64_MAX, 256};
  for (const std::int64_t every : {1, 2}) {
    const std::int64_t step[] = {1, every};
    const format::Slice slice = format::slice(matrix.tensor, begin, end, step);
    const std::vector<ReadRequest> requests{{0, slice.src_begin, 1024 * 16 * kKiB, &place, 0, &slice}};
    for (const std::uint64_t gap : {std::uint64_t{1}, 128 * kKiB}) {
      io::Callbacks callbacks{no_bytes, nullptr, nullptr};
      callbacks.parallel = every == 1 ? 16 : 1;
      callbacks.chunk_bytes = 8 * kMiB;
      callbacks.gap_bytes = gap;
      const SourcePtr source = io::callback_source(callbacks, UINT64_MAX);
      std::uint64_t runs = 0;
      const std::vector<ReadBatch> batches = batches_of(requests, readers_of({source.get()}), {16, 0, 0});
      EXPECT_EQ(batches.size(), gap == 1 ? 1024U : 3U);
      for (const ReadBatch& batch : batches) {
        EXPECT_EQ(batch.first_run, runs);
        runs += batch.runs;
      }
      EXPECT_EQ(runs, format::run_count(slice));
    }
  }
}

// Even if the request has begun inside the row.
TEST(ReadScheduler, NoRequestOfSuchASourceReadsTheLongGapAfterARow) {
  constexpr std::uint64_t kRows = 3;
  constexpr std::uint64_t kOfRow = 40'000;
  const Matrix matrix(kRows, 100'000);
  const std::int64_t begin[] = {0, 0};
  const std::int64_t end[] = {INT64_MAX, 80'000};
  const std::int64_t step[] = {1, 2};
  const format::Slice slice = format::slice(matrix.tensor, begin, end, step);
  const std::vector<ReadRequest> requests{{0, slice.src_begin, kRows * 100'000, &place, 0, &slice}};
  io::Callbacks callbacks{no_bytes, nullptr, nullptr};
  callbacks.parallel = 16;
  callbacks.chunk_bytes = 64 * kKiB;
  callbacks.gap_bytes = 100;
  const SourcePtr source = io::callback_source(callbacks, UINT64_MAX);
  const std::vector<ReadBatch> batches = batches_of(requests, readers_of({source.get()}), {16, 0, 0});
  EXPECT_EQ(batches.size(), 2 * kRows);
  for (const ReadBatch& batch : batches) {
    EXPECT_EQ(batch.first_run / kOfRow, (batch.first_run + batch.runs - 1) / kOfRow) << batch.first_run;
  }
}

// A batch of a memory source's runs is followed by one of another source, made in the same ReadBatch.
TEST(ReadScheduler, RunsAreCopiedFromTheMemoryOfTheirOwnSource) {
  const Matrix matrix(64, kMiB);
  const format::Slice slice = matrix.columns(0, 512 * kKiB);
  const SourcePtr quick = io::memory_source("x", 100 * kMiB, nullptr, nullptr);
  const SourcePtr slow = callbacks(UINT64_MAX);
  const Readers readers = readers_of({quick.get(), slow.get()});
  const std::uint64_t bytes = format::extent(slice);
  const std::vector<ReadRequest> requests{
      {0, 0, 10, &place, 0, nullptr}, {0, 10, bytes, &place, 1, &slice}, {1, 0, bytes, &place, 2, &slice}};
  const std::vector<ReadBatch> batches = batches_of(requests, readers, {4, 0, 0});
  EXPECT_EQ(batches.front().ranges.size(), 1U);
  std::size_t copied = 0;
  for (const ReadBatch& batch : batches) {
    if (!batch.ranges.empty()) continue;
    EXPECT_EQ(batch.memory != nullptr, batch.request == &requests[1]);
    copied += batch.memory != nullptr ? 1 : 0;
  }
  EXPECT_GE(copied, 8U) << "a progress callback and a cancel wait for each";
}

// Records the ranges it is asked about. It says that they are not cached, so its memory must not be used.
class AskedReader final : public io::SourceReader {
 public:
  using Asked = std::vector<std::pair<std::uint64_t, std::uint64_t>>;

  explicit AskedReader(const io::Source& source) : SourceReader(source) {}
  bool is_cached(std::uint64_t, std::uint64_t) override { return false; }
  io::ReadPath path_for(std::uint64_t begin, std::uint64_t end) override {
    asked.emplace_back(begin, end);
    return io::ReadPath::buffered;
  }
  const std::byte* memory() const override { return &place; }
  bool read_many(io::ReadPath, std::span<const io::Read>, std::uint64_t) override { return true; }
  void retire() override { ++retired; }
  void close_idle() override { ++closed; }

  Asked asked;
  int retired = 0;
  int closed = 0;
};

TEST(ReadScheduler, ThePathIsAskedOncePerBlockOf16MiB) {
  const SourcePtr source = callbacks(UINT64_MAX);
  Readers readers;
  for (int i = 0; i < 3; ++i) readers.push_back(std::make_unique<AskedReader>(*source));
  const auto reader = [&](std::size_t i) -> AskedReader& { return static_cast<AskedReader&>(*readers[i]); };
  const Matrix matrix(5, 10 * kMiB);
  constexpr std::uint64_t kFrom = 1000;
  constexpr std::uint64_t kRun = kMiB + 1;
  const format::Slice rows = matrix.columns(kFrom, kFrom + kRun);
  const format::Slice columns = matrix.columns(kFrom, kFrom + 1);
  const std::vector<ReadRequest> requests{
      {0, 5 * kMiB, 35 * kMiB, &place, 0, nullptr},       {0, 6 * kMiB, kMiB, &place, 1, nullptr},
      {0, 32 * kMiB, kMiB, &place, 2, nullptr},           {0, 32 * kMiB, kMiB, &place, 3, nullptr},
      {1, kFrom, format::extent(rows), &place, 4, &rows}, {2, kFrom, format::extent(columns), &place, 5, &columns}};
  ReadScheduler queue(requests, readers, {});
  for (const ReadBatch& batch : batches_of(queue)) EXPECT_EQ(batch.memory, nullptr);
  EXPECT_EQ(reader(0).asked, (AskedReader::Asked{{5 * kMiB, 16 * kMiB},
                                                 {16 * kMiB, 32 * kMiB},
                                                 {32 * kMiB, 40 * kMiB},
                                                 {6 * kMiB, 16 * kMiB},
                                                 {32 * kMiB, 40 * kMiB}}));
  EXPECT_EQ(reader(1).asked,
            (AskedReader::Asked{
                {kFrom, 16 * kMiB}, {20 * kMiB + kFrom, 32 * kMiB}, {40 * kMiB + kFrom, 40 * kMiB + kFrom + kRun}}));
  EXPECT_EQ(reader(0).retired, 1);
  EXPECT_EQ(reader(0).closed, 0);
}

TEST(ReadScheduler, AFileIsRetiredAfterItsLastBatch) {
  const SourcePtr source = callbacks(UINT64_MAX);
  Readers readers;
  for (int i = 0; i < 2; ++i) readers.push_back(std::make_unique<AskedReader>(*source));
  auto& first = static_cast<AskedReader&>(*readers[0]);
  const std::vector<ReadRequest> requests{{0, 0, 2 * kMiB, &place, 0, nullptr}, {1, 0, kMiB, &place, 1, nullptr}};
  ReadScheduler queue(requests, readers, {});
  ReadBatch slow, quick;
  ASSERT_TRUE(queue.next(slow) && queue.next(quick));
  ASSERT_TRUE(queue.next(quick));  // of the second file
  EXPECT_EQ(first.retired, 0);
  EXPECT_EQ(first.closed, 1);
  EXPECT_FALSE(queue.next(slow));
  EXPECT_EQ(first.retired, 1);
}

// No descriptor of a finished file stays open.
TEST(ReadScheduler, AFileThatIsDoneWithIsClosed) {
  const SparseFile first(1000);
  const SparseFile second(1000);
  const Readers readers = readers_of({first.source(), second.source()}, io::Cache::through);
  const std::vector<ReadRequest> requests{{0, 0, 1000, &place, 0, nullptr}, {1, 0, 1000, &place, 1, nullptr}};
  ReadScheduler queue(requests, readers, {});
  const auto lowest_free = [] {
    const int file = open("/dev/null", O_RDONLY | O_CLOEXEC);
    close(file);
    return file;
  };
  const int before = lowest_free();
  ReadBatch batch;
  ASSERT_TRUE(queue.next(batch));
  std::byte bytes[1000];
  const io::Read read{0, sizeof bytes, bytes};
  ASSERT_TRUE(batch.reader->read_many(io::ReadPath::buffered, {&read, 1}, sizeof bytes));
  ASSERT_GT(lowest_free(), before);
  ASSERT_TRUE(queue.next(batch));
  EXPECT_EQ(batch.reader, readers[1].get());
  readers[1]->close_idle();
  EXPECT_EQ(lowest_free(), before);
  EXPECT_FALSE(queue.next(batch));
}

// In the meantime, another thread has begun the next file.
TEST(ReadScheduler, ABatchKeepsTheDescriptorForDirectReads) {
  const SparseFile files[] = {SparseFile(2 * kMiB), SparseFile(kMiB)};
  const std::unique_ptr<std::byte, void (*)(void*)> bytes(static_cast<std::byte*>(std::aligned_alloc(65536, kMiB)),
                                                          std::free);
  const Readers readers = readers_of({files[0].source(), files[1].source()}, io::Cache::around);
  if (readers[0]->path_for(0, kMiB) != io::ReadPath::direct)
    GTEST_SKIP() << "no direct reads in " << testing::TempDir();
  const std::vector<ReadRequest> requests{{0, 0, 2 * kMiB, &place, 0, nullptr}, {1, 0, kMiB, &place, 1, nullptr}};
  ReadScheduler queue(requests, readers, {1, kMiB, 0});
  const auto reads_directly = [&](const ReadBatch& batch) {
    const io::Read read{batch.ranges.front().begin, kMiB, bytes.get()};
    read_faults::arm({"direct read"});
    const bool done = batch.reader->read_many(batch.path, {&read, 1}, read.offset + read.bytes);
    read_faults::disarm();
    return done && read_faults::calls() == 1;
  };
  const auto open_descriptors = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator());
  };
  ReadBatch slow, quick;
  ASSERT_TRUE(queue.next(slow));
  ASSERT_TRUE(queue.next(quick));
  EXPECT_TRUE(reads_directly(quick));
  ASSERT_TRUE(queue.next(quick));
  ASSERT_EQ(quick.reader, readers[1].get());
  EXPECT_TRUE(reads_directly(slow));
  EXPECT_TRUE(reads_directly(slow));  // as for a batch of several reads
  const auto before = open_descriptors();
  EXPECT_FALSE(queue.next(slow));
  EXPECT_EQ(open_descriptors(), before - 1);  // it was the last one of its file
  EXPECT_TRUE(reads_directly(quick));
}

// Only the requested bytes of the file are in the cache.
TEST(ReadScheduler, TheSystemIsAskedOnlyAboutWhatIsWantedOfAFile) {
  const SparseFile whole(16 * kMiB);
  const SparseFile begun(16 * kMiB);
  const int descriptor = open(begun.source()->name(), O_WRONLY | O_CLOEXEC);
  const std::string text(kMiB, 'x');
  ASSERT_EQ(pwrite(descriptor, text.data(), text.size(), 0), static_cast<ssize_t>(kMiB));
  ASSERT_EQ(fsync(descriptor), 0);
  close(descriptor);
  const Readers readers = readers_of({whole.source(), begun.source()});
  const bool told = readers[1]->path_for(0, kMiB) == io::ReadPath::cached &&
                    readers[1]->path_for(0, 16 * kMiB) != io::ReadPath::cached;
  if (!told) GTEST_SKIP() << "the system does not tell what is cached";
  const std::vector<ReadRequest> requests{{0, 0, 16 * kMiB, &place, 0, nullptr}, {1, 0, kMiB, &place, 1, nullptr}};
  std::size_t batches = 0;
  for (const ReadBatch& batch : batches_of(requests, readers, {1, 0, 0})) {
    if (batch.reader == readers[0].get()) continue;
    EXPECT_EQ(batch.path, io::ReadPath::cached) << batch.ranges.front().begin;
    ++batches;
  }
  EXPECT_GT(batches, 0U);
}

TEST(ReadScheduler, OfAFileInTheCacheAreCopiedToItsEnd) {
  constexpr std::uint64_t kBytes = 40 * kMiB;
  const SparseFile cached(kBytes);
  std::ofstream(cached.source()->name(), std::ios::binary) << std::string(kBytes, 'x');
  const Readers readers = readers_of({cached.source()});
  const bool known = readers[0]->path_for(0, kBytes) == io::ReadPath::cached;
  if (!known) GTEST_SKIP() << "the system does not tell what is cached";
  const std::vector<ReadRequest> requests{{0, 1000, kBytes - 1000, &place, 0, nullptr}};
  const std::vector<ReadBatch> batches = batches_of(requests, readers, {1, 0, 0});
  EXPECT_GT(batches.size(), 4U);
  for (const ReadBatch& batch : batches) EXPECT_EQ(batch.path, io::ReadPath::cached) << batch.ranges.front().begin;
}

}  // namespace
}  // namespace st::core::read_scheduler_test
