// Ranges of a source that overlap: each byte is read once, and the requests stay in the order of the source.
// SPDX-License-Identifier: Apache-2.0
#include "core/read_request.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <forward_list>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace st::core::read_request_test {
namespace {

TEST(SortByPosition, SortsByFileAndThenByPlace) {
  std::vector<ReadRequest> requests;
  for (const std::size_t source : {2U, 0U, 1U}) {
    for (const std::uint64_t begin : {7U, 3U, 5U}) requests.push_back({source, begin, 1, nullptr});
  }
  sort_by_position(requests);
  using Position = std::pair<std::size_t, std::uint64_t>;
  std::vector<Position> positions;
  for (const ReadRequest& one : requests) positions.emplace_back(one.source, one.begin);
  EXPECT_EQ(positions, (std::vector<Position>{{0, 3}, {0, 5}, {0, 7}, {1, 3}, {1, 5}, {1, 7}, {2, 3}, {2, 5}, {2, 7}}));
}

// No request is lost or repeated.
TEST(SortByPosition, SortsManyOfOnePlace) {
  std::vector<ReadRequest> requests;
  for (std::size_t entry = 0; entry < 1000; ++entry) requests.push_back({0, entry % 2, 1, nullptr, entry});
  sort_by_position(requests);
  std::set<std::size_t> entries;
  for (const ReadRequest& one : requests) entries.insert(one.entry);
  EXPECT_EQ(entries.size(), 1000U);
}

TEST(SplitOverlaps, KeepsTheOrderEvenAmongSlices) {
  std::array<std::byte, 200> memory{};
  const format::Slice slice;
  const auto request = [&](std::size_t source, std::uint64_t begin, std::uint64_t bytes, const format::Slice* of) {
    return ReadRequest{source, begin, bytes, memory.data(), 0, of, nullptr, nullptr};
  };
  std::vector<ReadRequest> requests = {request(0, 0, 100, nullptr),  request(0, 50, 100, nullptr),
                                       request(0, 60, 30, &slice),   request(0, 120, 10, nullptr),
                                       request(0, 160, 10, nullptr), request(1, 0, 10, nullptr),
                                       request(1, 5, 10, &slice)};
  const OtherDestinations others = split_overlaps(requests);
  using Range = std::tuple<std::size_t, std::uint64_t, std::uint64_t, bool>;
  std::vector<Range> ranges;
  for (const ReadRequest& one : requests) ranges.emplace_back(one.source, one.begin, one.bytes, one.also != nullptr);
  const std::vector<Range> expected = {{0, 0, 50, false},   {0, 50, 50, true},  {0, 60, 30, false},
                                       {0, 100, 20, false}, {0, 120, 10, true}, {0, 130, 20, false},
                                       {0, 160, 10, false}, {1, 0, 10, false},  {1, 5, 10, false}};
  EXPECT_EQ(ranges, expected);
}

// Of n nested ranges, the parts grow with n². Many are read as they are, and some bytes several times.
TEST(SplitOverlaps, LeavesRangesAsTheyAreThatWouldBecomeTooManyParts) {
  std::array<std::byte, 1000> memory{};
  for (const std::uint64_t n : {20U, 64U, 65U, 500U}) {
    std::vector<ReadRequest> requests;
    for (std::uint64_t i = 0; i < n; ++i) requests.push_back({0, i, 2 * (n - i), memory.data() + i, i, nullptr});
    const OtherDestinations others = split_overlaps(requests);
    EXPECT_EQ(others.empty(), n > 64);
    EXPECT_EQ(requests.size(), n > 64 ? n : 2 * n - 1);
  }
}

// The parts of random slices between random positions bring each byte once, and nothing from outside.
TEST(Cut, BringsEachByteOnce) {
  std::mt19937 random(1);
  const std::uint64_t dims[] = {5, 7, 3, 4};
  constexpr std::uint64_t kTensor = 1000;  // its position
  const std::string file = [&] {
    std::string bytes(kTensor + 420, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    return bytes;
  }();
  format::Tensor tensor;
  tensor.dims = dims;
  tensor.rank = 4;
  tensor.dtype_number = static_cast<std::uint32_t>(Dtype::U8) & 31U;
  tensor.end = 420;
  for (int repeat = 0; repeat < 2000; ++repeat) {
    std::vector<std::int64_t> begin, end, step;
    for (const std::uint64_t dim : dims) {
      constexpr std::int64_t kSteps[] = {1, 1, 1, 2, -1, -2};
      step.push_back(kSteps[random() % 6]);
      begin.push_back(step.back() > 0 ? static_cast<std::int64_t>(random() % dim) : -1);
      end.push_back(step.back() > 0 ? INT64_MAX : INT64_MIN);
    }
    const format::Slice slice = format::slice(tensor, begin.data(), end.data(), step.data());
    const auto size = static_cast<std::size_t>(slice.bytes);
    const auto run_size = static_cast<std::size_t>(slice.run_bytes);
    std::string expected(size, '?');
    for (std::uint64_t run = 0; run < format::run_count(slice); ++run) {
      const format::Run at = format::run_at(slice, run);
      std::memcpy(expected.data() + at.dst, file.data() + kTensor + at.src, run_size);
    }
    std::string got(size, '?');
    const bool contiguous = slice.contiguous();
    const ReadRequest request{3,
                              kTensor + slice.src_begin,
                              format::extent(slice),
                              reinterpret_cast<std::byte*>(got.data()),
                              8,
                              contiguous ? nullptr : &slice,
                              nullptr,
                              nullptr};
    std::uint64_t bytes = 0;
    std::uint64_t next = 0;
    for (std::uint64_t from = 0; from < file.size(); from = next) {
      next = from + 1 + random() % 100;
      std::vector<ReadRequest> parts;
      std::forward_list<format::Slice> slices;
      cut(request, from, next, parts, slices);
      for (const ReadRequest& part : parts) {
        EXPECT_EQ(part.source, 3U);
        EXPECT_GT(part.bytes, 0U);
        EXPECT_EQ(part.entry, 8U);
        ASSERT_GE(part.begin, from);
        ASSERT_LE(end_of(part), next);
        const auto* const src = reinterpret_cast<const std::byte*>(file.data()) + part.begin;
        bytes += part.slice == nullptr ? part.bytes : part.slice->bytes;
        if (part.slice == nullptr) {
          std::memcpy(part.dst, src, static_cast<std::size_t>(part.bytes));
        } else {
          format::gather(*part.slice, 0, format::run_count(*part.slice), src, part.dst);
        }
      }
    }
    EXPECT_EQ(bytes, slice.bytes);
    ASSERT_EQ(got, expected);
  }
}

}  // namespace
}  // namespace st::core::read_request_test
