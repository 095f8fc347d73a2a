// A range of a source that is to be read: sorted, and split where ranges overlap.
//
// A plan has one request for each of its entries. The scheduler cuts batches of ranges from them, which are requests too.
// The executor turns the ranges of a batch into io::Reads.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <forward_list>
#include <vector>

#include "format/slice.hpp"

namespace st::core {

class Device;

// To read a range of a source to `dst`, or the runs of a slice inside that range.
struct ReadRequest {
  std::size_t source = 0;   // a shard's number; the scheduler's are indices into its readers
  std::uint64_t begin = 0;  // an offset; the scheduler's are positions (io/source.hpp)
  std::uint64_t bytes = 0;
  std::byte* dst = nullptr;
  std::size_t entry = 0;                 // number in the plan
  const format::Slice* slice = nullptr;  // null: the whole range
  Device* device = nullptr;              // the owner of `dst`; null: the host
  // Another destination of the same bytes, whose `dst` is for `begin` here. Only for whole ranges.
  const ReadRequest* also = nullptr;
};

inline std::uint64_t end_of(const ReadRequest& request) { return request.begin + request.bytes; }

// Adds the parts of a request inside [begin, end). Parts that are slices point to an element of `slices`.
void cut(const ReadRequest& request, std::uint64_t begin, std::uint64_t end, std::vector<ReadRequest>& parts,
         std::forward_list<format::Slice>& slices);

// Sorts by source and begin.
void sort_by_position(std::vector<ReadRequest>& requests);

// What ReadRequest::also points to.
using OtherDestinations = std::forward_list<ReadRequest>;

// Splits overlapping ranges into ranges that do not overlap, so that bytes with several destinations are read once.
// Before and after, the requests are sorted by source and begin, whether these mean a shard or a reader. Slices that are
// not contiguous stay whole, and so do ranges that would become too many.
OtherDestinations split_overlaps(std::vector<ReadRequest>& requests);

}  // namespace st::core
