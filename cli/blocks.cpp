// Reads with read_shard(), which takes any byte range, so adjacent tensors share a request and large ones are split. A
// second thread reads the next block while the caller works on the current one.
// SPDX-License-Identifier: Apache-2.0
#include "blocks.hpp"

#include <algorithm>
#include <future>
#include <set>
#include <utility>

#include "progress.hpp"
#include "system.hpp"

namespace cli {
namespace {

constexpr auto kBesides = std::launch::async | std::launch::deferred;  // deferred if no thread can start
constexpr std::uint64_t kBlockBytes = std::uint64_t{4} << 20;          // a multiple of every element size

struct Range {
  const safetensors::SafeOpen* file;
  std::size_t shard;
  std::uint64_t offset;
  std::uint64_t bytes;
  std::size_t source;
};

struct Piece {
  std::size_t source;
  std::uint64_t at;
  std::size_t bytes;
};

// Adjacent pieces of one file.
struct Block {
  const safetensors::SafeOpen* file = nullptr;
  std::size_t shard = 0;
  std::uint64_t offset = 0;
  std::size_t bytes = 0;
  std::vector<Piece> pieces;
  std::vector<std::byte> memory;
};

class Blocks {
 public:
  explicit Blocks(const std::vector<Range>& ranges) : ranges_(ranges) {}

  // Returns false at the end.
  bool next(Block& block) {
    block.bytes = 0;
    block.pieces.clear();
    while (i_ < ranges_.size() && take(block)) {}
    return block.bytes != 0;
  }

 private:
  static bool same_file(const Block& block, const Range& range) {
    return block.file->c_handle() == range.file->c_handle();
  }

  // Returns false if the next range does not continue the block, or the block is full.
  bool take(Block& block) {
    const Range& range = ranges_[i_];
    if (at_ == range.bytes) {
      ++i_;
      at_ = 0;
      return true;
    }
    const std::uint64_t begin = range.offset + at_;
    if (block.bytes == 0) {
      block.file = range.file;
      block.shard = range.shard;
      block.offset = begin;
    }
    const bool continues = same_file(block, range) && block.shard == range.shard && block.offset + block.bytes == begin;
    // Split a tensor only at multiples of the block size, which never split an element.
    const std::uint64_t bytes = std::min(range.bytes - at_, kBlockBytes - at_ % kBlockBytes);
    if (!continues || block.bytes + bytes > kBlockBytes) return false;
    block.pieces.push_back({range.source, at_, static_cast<std::size_t>(bytes)});
    block.bytes += static_cast<std::size_t>(bytes);
    at_ += bytes;
    return true;
  }

  const std::vector<Range>& ranges_;
  std::size_t i_ = 0;
  std::uint64_t at_ = 0;
};

void read(Block& block) {
  if (block.memory.size() < block.bytes) block.memory.resize(kBlockBytes);
  block.file->read_shard(block.shard, block.offset, block.memory.data(), block.bytes);
}

void for_each_part_of(const std::vector<Range>& ranges, const std::string& what,
                      const std::function<void(const Part&)>& work) {
  std::uint64_t done = 0;
  std::uint64_t total = 0;
  for (const Range& range : ranges) total += range.bytes;
  Progress progress(what);
  Blocks blocks(ranges);
  Block now;
  Block then;
  if (!blocks.next(now)) return;
  read(now);
  while (now.bytes != 0) {
    std::future<void> reading;
    if (blocks.next(then)) reading = std::async(kBesides, [&then] { read(then); });
    std::size_t place = 0;
    for (const Piece& piece : now.pieces) {
      work({piece.source, piece.at, std::span(now.memory).subspan(place, piece.bytes)});
      place += piece.bytes;
    }
    done += now.bytes;
    progress.show(done, total);
    stop_if_interrupted();
    if (reading.valid()) reading.get();
    std::swap(now, then);
  }
}

}  // namespace

void check_unchanged(const std::vector<Source>& sources) {
  std::set<std::pair<const st_file*, std::size_t>> checked;
  for (const auto& [file, tensor] : sources) {
    if (checked.emplace(file.c_handle(), tensor.shard()).second) file.check_unchanged(tensor.shard());
  }
}

void for_each_part(const std::vector<Source>& sources, const std::string& what,
                   const std::function<void(const Part&)>& work) {
  std::vector<Range> ranges;
  ranges.reserve(sources.size());
  for (const auto& [file, tensor] : sources) {
    ranges.push_back({&file, tensor.shard(), tensor.offset(), tensor.nbytes(), ranges.size()});
  }
  for_each_part_of(ranges, what, work);
  check_unchanged(sources);
}

void for_each_part(const safetensors::SafeOpen& file, std::size_t shard, std::uint64_t from, const std::string& what,
                   const std::function<void(const Part&)>& work) {
  for_each_part_of({{&file, shard, from, file.shard_size(shard) - from, 0}}, what, work);
  file.check_unchanged(shard);
}

}  // namespace cli
