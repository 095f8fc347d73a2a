// Gaps between the runs of a slice are also read (and dropped) only if that is faster than another request.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <string>
#include <vector>

#include "../format/file_front.hpp"
#include "base/text.hpp"
#include "core/plan.hpp"
#include "io/source.hpp"

namespace st::core::gap_test {
namespace {

constexpr std::uint64_t kRows = 200;
constexpr std::uint64_t kColumns = 64;

// U8 [kRows, stride] of zeros. Counts the bytes read from it.
struct Counted {
  std::string front;
  std::atomic<std::uint64_t> bytes{0};
  std::atomic<std::uint64_t> requests{0};
};

std::int32_t read_at(void* ctx, std::uint64_t offset, void* dst, std::size_t n) {
  auto& counted = *static_cast<Counted*>(ctx);
  counted.bytes += n;
  ++counted.requests;
  std::memset(dst, 0, n);
  if (offset < counted.front.size()) {
    std::memcpy(dst, counted.front.data() + offset,
                std::min(n, counted.front.size() - static_cast<std::size_t>(offset)));
  }
  return 0;
}

struct Case {
  std::uint64_t stride;
  unsigned threads;
  std::uint64_t gap_bytes;  // as the caller sets it
  bool along;
};

constexpr std::uint64_t kKiB = 1024;

// A single reader waits for each request in turn; many readers wait concurrently, until the disk is saturated.
constexpr Case kCases[] = {
    {8 * kKiB, 1, 0, true},       {8 * kKiB, 16, 0, true},   {64 * kKiB, 1, 0, true},
    {64 * kKiB, 16, 0, false},    {32 * kKiB, 16, 0, false}, {32 * kKiB, 2, 0, true},
    {128 * kKiB, 1, 0, true},     {128 * kKiB, 2, 0, false}, {256 * kKiB, 1, 0, false},
    {256 * kKiB, 1024, 0, false}, {8 * kKiB, 16, 1, false},  {256 * kKiB, 16, 256 * kKiB, true},
};

TEST(Gap, is_read_along_only_where_another_request_would_take_longer) {
  for (const Case& which : kCases) {
    SCOPED_TRACE(formatted("rows of {} bytes, {} threads, a gap of {}", which.stride, which.threads, which.gap_bytes));
    const std::uint64_t end = kRows * which.stride;
    const std::string header =
        formatted(R"({{"m":{{"dtype":"U8","shape":[{},{}],"data_offsets":[0,{}]}}}})", kRows, which.stride, end);
    Counted counted;
    counted.front = format::file_front(header);
    const auto file =
        Checkpoint::open(io::callback_source({read_at, nullptr, &counted}, counted.front.size() + end), OpenOptions{});
    Plan plan(*file);
    const std::int64_t first[] = {0, 100};
    const std::int64_t last[] = {INT64_MAX, 100 + kColumns};
    std::vector<std::byte> got(kRows * kColumns);
    plan.add(*file->tensor("m"), first, last, nullptr, got.data(), got.size());
    counted.bytes = counted.requests = 0;
    ReadOptions options;
    options.threads = which.threads;
    options.gap_bytes = which.gap_bytes;
    plan.run(options);
    if (which.along) {
      EXPECT_GE(counted.bytes, kRows * which.stride / 2);
      EXPECT_LT(counted.requests, kRows / 2);
    } else {
      EXPECT_EQ(counted.bytes, got.size());
      EXPECT_EQ(counted.requests, kRows);
    }
  }
}

// In a row, 48 runs are close together. Batches of 1 MiB end inside a row, and the next one begins with the rest of it.
TEST(Gap, between_two_rows_is_not_read_after_the_rest_of_a_row) {
  constexpr std::uint64_t kRowBytes = 510'000;
  Counted counted;
  counted.front = format::file_front(R"({"m":{"dtype":"U8","shape":[20,510,1000],"data_offsets":[0,10200000]}})");
  const auto file = Checkpoint::open(
      io::callback_source({read_at, nullptr, &counted}, counted.front.size() + 20 * kRowBytes), OpenOptions{});
  Plan plan(*file);
  const std::int64_t end[] = {20, 48, 100};
  std::vector<std::byte> got(std::size_t{20} * 48 * 100);
  plan.add(*file->tensor("m"), nullptr, end, nullptr, got.data(), got.size());
  counted.bytes = 0;
  ReadOptions options;
  options.threads = 1;
  plan.run(options);
  EXPECT_LE(counted.bytes, 20U * (47 * 1000 + 100));
}

}  // namespace
}  // namespace st::core::gap_test
