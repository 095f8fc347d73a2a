// A checkpoint in blocks of equal length, and which of them the processes of a group want.
//
// Addresses are positions in the blocks of all shards, one after another. Each shard begins with a block.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <forward_list>
#include <string_view>
#include <vector>

#include "core/checkpoint.hpp"
#include "core/group.hpp"
#include "core/read_request.hpp"

namespace st::core {

struct Range {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

// Sorts ranges, and merges those with a gap of at most `gap` bytes.
void merge_ranges(std::vector<Range>& ranges, std::uint64_t gap);

// Identifies the headers of all shards.
std::uint64_t digest_of(const Checkpoint& file);

// Returns the length of the blocks: there are enough to deal out evenly, and `most` bytes hold one.
std::uint64_t block_bytes_for(const Checkpoint& file, std::uint64_t most, std::size_t processes);

class GroupBlocks {
 public:
  enum class Kind : std::uint8_t { unwanted, own, shared };  // own: only this process wants it

  // A shorter gap between two wanted ranges of a block is sent with them, because another range takes longer.
  static constexpr std::uint64_t kGap = 256;

  // Takes the requests of this process, as for read_shards().
  GroupBlocks(const Checkpoint& file, std::uint64_t block_bytes, std::vector<ReadRequest> requests);

  // Finds the kind of each block, together with the other processes.
  void count_wishes(const Group& group);

  std::uint64_t count() const { return kinds_.size(); }
  std::uint64_t own() const { return own_; }  // how many there are of each kind
  std::uint64_t shared() const { return shared_; }
  std::uint64_t block_bytes() const { return block_bytes_; }
  std::uint64_t wanted_bytes() const { return wanted_bytes_; }  // of all requests

  // Returns the first block of this kind from `block` on, which must exist.
  std::uint64_t next(std::uint64_t block, Kind kind) const;
  // Returns the blocks of one kind from `block` on, at most `most`, as a range of addresses. At least `most` must exist.
  Range together(std::uint64_t block, std::uint64_t most) const;
  // Returns the addresses of a block, up to the end of its shard.
  Range range_of(std::uint64_t block) const;

  // Adds the parts of the requests in this range, as cut() does. They begin at addresses.
  void cut_requests(const Range& range, std::vector<ReadRequest>& parts,
                    std::forward_list<format::Slice>& slices) const;
  // Finds what this process wants of a block: ascending ranges with gaps of more than kGap bytes.
  void find_wanted(std::uint64_t block, std::vector<Range>& ranges) const;

  std::size_t shard_at(std::uint64_t address) const;
  std::uint64_t offset_of(std::uint64_t address) const { return address - starts_[shard_at(address)]; }
  std::string_view tensor_at(std::uint64_t address) const;  // its name

 private:
  void mark(const ReadRequest& request);
  std::vector<std::size_t> requests_in(const Range& range) const;

  const Checkpoint& file_;
  const std::uint64_t block_bytes_;
  std::vector<std::uint64_t> starts_;  // the address of each shard
  std::vector<Kind> kinds_;
  std::vector<std::uint64_t> counts_;  // of one operation of the group
  std::vector<ReadRequest> requests_;  // sorted by address
  // A tree of maxima: [leaves_ + i] is the end of requests_[i], [i] is the larger of [2 i] and [2 i + 1]; [1] is the root.
  std::vector<std::uint64_t> ends_;
  std::size_t leaves_ = 1;
  std::uint64_t wanted_bytes_ = 0;
  std::uint64_t own_ = 0;
  std::uint64_t shared_ = 0;
};

}  // namespace st::core
