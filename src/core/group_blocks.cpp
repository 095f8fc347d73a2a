// SPDX-License-Identifier: Apache-2.0
#include "core/group_blocks.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "format/slice.hpp"

namespace st::core {

namespace {

constexpr std::uint64_t kLeastBlock = std::uint64_t{64} << 10;
constexpr std::uint64_t kMostBlock = std::uint64_t{4} << 20;
constexpr std::uint64_t kMostBlocks = std::uint64_t{1} << 25;  // a byte for each
constexpr std::uint64_t kBlocksEach = 16;                      // at least for each process, to deal them out evenly
constexpr std::size_t kCounts = 65536;                         // of one operation of the group
constexpr std::size_t kUnmergedRanges = 100'000;  // bounds the memory if many slices of one tensor are wanted

std::uint64_t bytes_of(const Checkpoint& file) {
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < file.count_shards(); ++i) {
    bytes += std::min(file.shard(i).source->size(), UINT64_MAX - bytes);
  }
  return bytes;
}

}  // namespace

void merge_ranges(std::vector<Range>& ranges, std::uint64_t gap) {
  if (ranges.empty()) return;
  std::sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) { return a.begin < b.begin; });
  std::size_t last = 0;
  for (const Range& range : ranges) {
    if (range.begin <= ranges[last].end || range.begin - ranges[last].end <= gap) {
      ranges[last].end = std::max(ranges[last].end, range.end);
    } else {
      ranges[++last] = range;
    }
  }
  ranges.resize(last + 1);
}

std::uint64_t digest_of(const Checkpoint& file) {
  std::uint64_t digest = file.count_shards();
  const auto add = [&digest](const void* data, std::size_t bytes) {
    digest = format::hash_name({static_cast<const char*>(data), bytes}, digest);
  };
  for (std::size_t i = 0; i < file.count_shards(); ++i) {
    const Shard& shard = file.shard(i);
    const std::uint64_t sizes[] = {shard.source->size(), shard.table.data_begin, shard.table.tensors.size()};
    add(sizes, sizeof(sizes));
    for (const Tensor& tensor : shard.table.tensors) {
      const std::string_view dtype = tensor.dtype_name();
      const std::uint64_t place[] = {tensor.begin, tensor.end};
      add(tensor.name_text, tensor.name_bytes);
      add(dtype.data(), dtype.size());
      add(tensor.dims, tensor.rank * sizeof(*tensor.dims));
      add(place, sizeof(place));
    }
    for (const MetadataPair& pair : shard.table.metadata) {
      add(pair.key.data(), pair.key.size());
      add(pair.value.data(), pair.value.size());
    }
  }
  return digest;
}

std::uint64_t block_bytes_for(const Checkpoint& file, std::uint64_t most, std::size_t processes) {
  most = std::min(most, bytes_of(file) / (kBlocksEach * processes));
  std::uint64_t bytes = kMostBlock;
  while (bytes > most && bytes > kLeastBlock) bytes /= 2;
  return bytes;
}

GroupBlocks::GroupBlocks(const Checkpoint& file, std::uint64_t block_bytes, std::vector<ReadRequest> requests)
    : file_(file), block_bytes_(block_bytes), requests_(std::move(requests)) {
  std::uint64_t blocks = 0;
  for (std::size_t i = 0; i < file.count_shards(); ++i) {
    starts_.push_back(blocks * block_bytes);
    blocks += file.shard(i).source->size() / block_bytes + 1;
    if (blocks > kMostBlocks) {
      fail(Status::overflow, "the checkpoint of {} bytes is more than {} blocks of {} bytes: raise exchange_bytes",
           bytes_of(file), kMostBlocks, block_bytes);
    }
  }
  kinds_.assign(static_cast<std::size_t>(blocks), Kind::unwanted);
  counts_.resize(std::min(kinds_.size(), kCounts));
  while (leaves_ < requests_.size()) leaves_ *= 2;
  ends_.resize(2 * leaves_);
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    ReadRequest& request = requests_[i];
    request.begin += starts_[request.source];
    ends_[leaves_ + i] = end_of(request);
    wanted_bytes_ += request.slice != nullptr ? request.slice->bytes : request.bytes;
    mark(request);
  }
  for (std::size_t i = leaves_; i-- > 1;) ends_[i] = std::max(ends_[2 * i], ends_[2 * i + 1]);
}

// Marks the blocks that a request needs.
void GroupBlocks::mark(const ReadRequest& request) {
  for (std::uint64_t block = request.begin / block_bytes_; block * block_bytes_ < end_of(request); ++block) {
    if (kinds_[static_cast<std::size_t>(block)] == Kind::own) continue;
    if (request.slice != nullptr) {
      const format::Slice& slice = *request.slice;
      const std::uint64_t tensor = request.begin - slice.src_begin;  // modulo 2^64
      const std::uint64_t from = std::max(block * block_bytes_, request.begin) - tensor;
      const std::uint64_t next = tensor + format::run_at(slice, format::first_run_after(slice, from)).src;
      block = std::max(block, next / block_bytes_);  // the blocks before it are in a gap
    }
    kinds_[static_cast<std::size_t>(block)] = Kind::own;
  }
}

void GroupBlocks::count_wishes(const Group& group) {
  for (std::size_t first = 0; first < kinds_.size(); first += counts_.size()) {
    const std::size_t n = std::min(counts_.size(), kinds_.size() - first);
    Kind* const kinds = kinds_.data() + first;
    for (std::size_t i = 0; i < n; ++i) counts_[i] = kinds[i] == Kind::own ? 1 : 0;
    allreduce(group, Reduce::sum, counts_.data(), n);
    for (std::size_t i = 0; i < n; ++i) {
      if (counts_[i] > 1) kinds[i] = Kind::shared;
      if (kinds[i] == Kind::own) ++own_;
      if (kinds[i] == Kind::shared) ++shared_;
    }
  }
}

std::uint64_t GroupBlocks::next(std::uint64_t block, Kind kind) const {
  while (kinds_[static_cast<std::size_t>(block)] != kind) ++block;
  return block;
}

Range GroupBlocks::together(std::uint64_t block, std::uint64_t most) const {
  std::uint64_t end = block + 1;
  const Kind kind = kinds_[static_cast<std::size_t>(block)];
  while (end - block < most && kinds_[static_cast<std::size_t>(end)] == kind) ++end;
  return {block * block_bytes_, end * block_bytes_};
}

Range GroupBlocks::range_of(std::uint64_t block) const {
  const std::uint64_t begin = block * block_bytes_;
  const std::size_t shard = shard_at(begin);
  return {begin, std::min(begin + block_bytes_, starts_[shard] + file_.shard(shard).source->size())};
}

// Returns the requests that overlap the range, in their order. One long request does not make it look at all the others.
std::vector<std::size_t> GroupBlocks::requests_in(const Range& range) const {
  const auto behind = std::partition_point(requests_.begin(), requests_.end(),
                                           [&](const ReadRequest& request) { return request.begin < range.end; });
  const auto count = static_cast<std::size_t>(behind - requests_.begin());
  std::vector<std::size_t> found;
  const auto search = [&](const auto& self, std::size_t node, std::size_t first, std::size_t leaves) -> void {
    if (first >= count || ends_[node] <= range.begin) return;
    if (leaves == 1) return found.push_back(first);
    self(self, 2 * node, first, leaves / 2);
    self(self, 2 * node + 1, first + leaves / 2, leaves / 2);
  };
  search(search, 1, 0, leaves_);
  return found;
}

void GroupBlocks::cut_requests(const Range& range, std::vector<ReadRequest>& parts,
                               std::forward_list<format::Slice>& slices) const {
  for (const std::size_t i : requests_in(range)) cut(requests_[i], range.begin, range.end, parts, slices);
}

void GroupBlocks::find_wanted(std::uint64_t block, std::vector<Range>& ranges) const {
  const Range range = range_of(block);
  std::vector<ReadRequest> parts;
  std::forward_list<format::Slice> slices;
  std::size_t merged = 0;
  ranges.clear();
  for (const std::size_t i : requests_in(range)) {
    parts.clear();
    slices.clear();
    cut(requests_[i], range.begin, range.end, parts, slices);
    for (const ReadRequest& part : parts) {
      if (part.slice == nullptr) {
        ranges.push_back({part.begin, end_of(part)});
        continue;
      }
      const format::Slice& slice = *part.slice;
      const std::uint64_t tensor = part.begin - slice.src_begin;
      const std::uint64_t runs = format::runs_within_gap(slice, kGap);
      for (std::uint64_t run = 0; run < format::run_count(slice); run += runs) {
        ranges.push_back({tensor + format::run_at(slice, run).src,
                          tensor + format::run_at(slice, run + runs - 1).src + slice.run_bytes});
      }
    }
    if (ranges.size() > 2 * merged + kUnmergedRanges) {
      merge_ranges(ranges, kGap);
      merged = ranges.size();
    }
  }
  merge_ranges(ranges, kGap);
}

std::size_t GroupBlocks::shard_at(std::uint64_t address) const {
  return static_cast<std::size_t>(std::upper_bound(starts_.begin(), starts_.end(), address) - starts_.begin()) - 1;
}

std::string_view GroupBlocks::tensor_at(std::uint64_t address) const {
  const format::Table& table = file_.shard(shard_at(address)).table;
  const std::uint64_t position = offset_of(address) - table.data_begin;
  const auto after = std::upper_bound(table.tensors.begin(), table.tensors.end(), position,
                                      [](std::uint64_t at, const Tensor& tensor) { return at < tensor.begin; });
  return after == table.tensors.begin() ? std::string_view() : (after - 1)->name();
}

}  // namespace st::core
