// Ranges of a source that overlap: each byte is read once, and the requests stay in the order of the source.
// SPDX-License-Identifier: Apache-2.0
#include "core/read_request.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

namespace st::core {
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

TEST(SplitOverlaps, KeepsTheOrderEvenAmongSlices) {
  std::array<std::byte, 200> memory{};
  const format::Slice slice;
  const auto request = [&](std::size_t source, std::uint64_t begin, std::uint64_t bytes, const format::Slice* of) {
    return ReadRequest{source, begin, bytes, memory.data(), 0, of, nullptr, nullptr};
  };
  std::vector<ReadRequest> requests = {request(0, 0, 100, nullptr), request(0, 50, 100, nullptr),
                                       request(0, 60, 30, &slice), request(1, 0, 10, nullptr),
                                       request(1, 5, 10, &slice)};
  const OtherDestinations others = split_overlaps(requests);
  using Range = std::tuple<std::size_t, std::uint64_t, std::uint64_t, bool>;
  std::vector<Range> ranges;
  for (const ReadRequest& one : requests) ranges.emplace_back(one.source, one.begin, one.bytes, one.also != nullptr);
  const std::vector<Range> expected = {{0, 0, 50, false},   {0, 50, 50, true}, {0, 60, 30, false},
                                       {0, 100, 50, false}, {1, 0, 10, false}, {1, 5, 10, false}};
  EXPECT_EQ(ranges, expected);
}

}  // namespace
}  // namespace st::core
