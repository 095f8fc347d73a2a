// Ranges of a source that overlap: each byte is read once, and the requests stay in the order of the source.
// SPDX-License-Identifier: Apache-2.0
#include "core/read_request.hpp"

#include <gtest/gtest.h>

#include <array>
#include <tuple>

namespace st::core {
namespace {

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
