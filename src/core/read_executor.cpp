// SPDX-License-Identifier: Apache-2.0
#include "core/read_executor.hpp"

#include <algorithm>
#include <cstring>
#include <new>

#include "base/checked.hpp"
#include "io/memory.hpp"

namespace st::core {

namespace {

constexpr std::align_val_t kScratchAlignment{65536};  // the most that a disk may ask for

// From this size on scratch memory is on huge pages: the kernel splits a read into 4 KiB pages into requests of at most
// 1 MiB, which took twice as long. Windows of 16 MiB of a matrix that was not cached took 77 ms on small pages, 31 on
// huge ones.
constexpr std::uint64_t kLeastHuge = std::uint64_t{1} << 20;

// Fewer bytes are copied from scratch memory, which takes less time than one more address for the disk.
constexpr std::uint64_t kLeastInPlace = std::uint64_t{16} << 10;

using Pages = std::unique_ptr<std::byte[], void (*)(std::byte*)>;

Pages small_pages(std::uint64_t bytes) {
  return {static_cast<std::byte*>(::operator new[](static_cast<std::size_t>(bytes), kScratchAlignment)),
          [](std::byte* pages) { ::operator delete[](pages, kScratchAlignment); }};
}

Pages huge_pages(std::uint64_t bytes) {
  return {io::new_buffer(bytes, io::Pages::as_they_are_touched, 1), io::free_buffer};
}

// Joins ranges that are adjacent in the source and in memory.
void join(std::span<const ReadRequest> ranges, std::vector<ReadRequest>& joined) {
  joined.clear();
  for (const ReadRequest& range : ranges) {
    if (!joined.empty() && joined.back().begin + joined.back().bytes == range.begin &&
        joined.back().dst + joined.back().bytes == range.dst) {
      joined.back().bytes += range.bytes;
    } else {
      joined.push_back(range);
    }
  }
}

bool delivered_alike(const ReadRequest& a, const ReadRequest& b) {
  return a.also != nullptr ? b.also != nullptr : b.also == nullptr && a.device == b.device;
}

}  // namespace

std::uint64_t ReadExecutor::alignment_of(const io::SourceReader& reader, io::ReadPath path) {
  return path == io::ReadPath::direct ? reader.alignment() : 1;
}

// Reads whole blocks around the bytes from block `begin` on. The memory has room for them.
void ReadExecutor::read_blocks(io::SourceReader& reader, io::ReadPath path, std::uint64_t begin, std::uint64_t end,
                               std::byte* memory) {
  const std::uint64_t last = align_up(end, alignment_of(reader, path));
  const io::Read blocks{begin, static_cast<std::size_t>(last - begin), memory};
  // The system would refuse it, and the file's other reads would no longer be direct.
  const bool fits = reinterpret_cast<std::uintptr_t>(memory) % alignment_of(reader, path) == 0;
  if (fits && read_many(reader, path, {&blocks, 1}, end)) return;
  const io::Read bytes{begin, static_cast<std::size_t>(end - begin), memory};
  (void)read_many(reader, io::ReadPath::wait, {&bytes, 1}, end);
}

bool ReadExecutor::read_many(io::SourceReader& reader, io::ReadPath path, std::span<const io::Read> reads,
                             std::uint64_t needed_end) {
  if (!reader.read_many(path, reads, needed_end)) return false;
  const io::Read& last = reads.back();
  counts_.bytes_read += last.offset + last.bytes - reads.front().offset;
  counts_.reads += reads.size() == 1 || reader.source().traits().joins_reads ? 1 : reads.size();
  return true;
}

std::byte* ReadExecutor::scratch(Scratch& memory, std::uint64_t bytes) {
  if (bytes > memory.bytes) {
    memory.pages.reset();
    memory.bytes = 0;
    if (bytes >= kLeastHuge) bytes = align_up(bytes, io::kBufferAlignment);
    memory.pages = bytes >= kLeastHuge ? huge_pages(bytes) : small_pages(bytes);
    memory.bytes = bytes;
  }
  return memory.pages.get();
}

void ReadExecutor::execute(const ReadBatch& batch) {
  if (batch.ranges.empty()) return read_runs(batch);
  Ranges left = batch.ranges;
  while (!left.empty()) {
    const ReadRequest& first = left.front();
    const auto other =
        std::find_if(left.begin(), left.end(), [&first](const auto& range) { return !delivered_alike(first, range); });
    const auto together = static_cast<std::size_t>(other - left.begin());
    deliver(*batch.reader, batch.path, left.first(together));
    left = left.subspan(together);
  }
}

// The ranges are delivered alike.
void ReadExecutor::deliver(io::SourceReader& reader, io::ReadPath path, Ranges ranges) {
  if (ranges.front().also != nullptr) return share_ranges(reader, path, ranges);
  if (ranges.front().device != nullptr) return stage_ranges(reader, path, ranges);
  read_ranges(reader, path, ranges);
  for (const ReadRequest& range : ranges) listener_.arrived(range.entry, range.bytes);
}

void ReadExecutor::read_ranges(io::SourceReader& reader, io::ReadPath path, Ranges ranges) {
  if (path == io::ReadPath::direct && try_ranges(reader, path, ranges)) return;
  // The path is not direct, or the system has just refused direct reads.
  if (path == io::ReadPath::direct) path = io::ReadPath::wait;
  (void)try_ranges(reader, path, ranges);
}

// The scratch memory is an image of the source from window_ on: bytes that cannot be read directly to their destination
// are read to their place in it. Returns false if the system refuses direct reads.
bool ReadExecutor::try_ranges(io::SourceReader& reader, io::ReadPath path, Ranges ranges) {
  const std::uint64_t alignment = alignment_of(reader, path);
  const std::uint64_t needed_end = ranges.back().begin + ranges.back().bytes;
  window_ = cursor_ = align_down(ranges.front().begin, alignment);
  const std::uint64_t end = align_up(needed_end, alignment);
  bounce_ = nullptr;
  reads_.clear();
  copies_.clear();
  join(ranges, joined_);
  const bool in_place = joined_.size() == 1 && alignment == 1;
  if (!in_place) bounce_ = scratch(scratch_, end - window_);
  for (const ReadRequest& range : joined_) add_range(range, alignment);
  fill_up_to(end);
  if (!read_many(reader, path, reads_, needed_end)) return false;
  for (const Copy& copy : copies_)
    std::memcpy(copy.dst, bounce_ + (copy.from - window_), static_cast<std::size_t>(copy.bytes));
  return true;
}

void ReadExecutor::add_range(const ReadRequest& range, std::uint64_t alignment) {
  const std::uint64_t end = range.begin + range.bytes;
  const std::uint64_t first = align_up(range.begin, alignment);
  const std::uint64_t last = align_down(end, alignment);
  std::byte* const place = range.dst + (first - range.begin);
  const bool fits = reinterpret_cast<std::uintptr_t>(place) % alignment == 0;
  const std::uint64_t least = alignment == 1 ? 1 : kLeastInPlace;
  if (!fits || last < first || last - first < least) {
    copies_.push_back({range.begin, range.bytes, range.dst});
    return;
  }
  fill_up_to(first);
  reads_.push_back({first, static_cast<std::size_t>(last - first), place});
  cursor_ = last;
  if (first != range.begin) copies_.push_back({range.begin, first - range.begin, range.dst});
  if (last != end) copies_.push_back({last, end - last, place + (last - first)});
}

void ReadExecutor::fill_up_to(std::uint64_t end) {
  if (end <= cursor_) return;
  reads_.push_back({cursor_, static_cast<std::size_t>(end - cursor_), bounce_ + (cursor_ - window_)});
  cursor_ = end;
}

// Returns the bytes in scratch memory.
const std::byte* ReadExecutor::read_window(io::SourceReader& reader, io::ReadPath path, std::uint64_t begin,
                                           std::uint64_t bytes) {
  const std::uint64_t alignment = alignment_of(reader, path);
  const std::uint64_t first = align_down(begin, alignment);
  std::byte* const memory = scratch(scratch_, align_up(begin + bytes, alignment) - first);
  read_blocks(reader, path, first, begin + bytes, memory);
  return memory + (begin - first);
}

void ReadExecutor::read_runs(const ReadBatch& batch) {
  const ReadRequest& request = *batch.request;
  const format::Slice& slice = *request.slice;
  const bool for_device = request.device != nullptr;
  if (for_device && slice.run_bytes <= request.device->slot_bytes() / 2) return stage_runs(batch);
  const std::uint64_t together = for_device ? 1 : format::runs_within_gap(slice, batch.gap);
  const std::uint64_t end = batch.first_run + batch.runs;
  for (std::uint64_t first = batch.first_run; first < end && !listener_.stopped();) {
    const std::uint64_t most = std::min(end - first, together - first % together);
    const std::uint64_t runs = format::runs_that_fit(slice, first, most, batch.room);
    const format::Run run = format::run_at(slice, first);
    const std::uint64_t begin = request.begin + (run.src - slice.src_begin);
    if (runs == 1) {
      one_.assign(1, {request.source, begin, slice.run_bytes, request.dst + run.dst, request.entry, nullptr,
                      request.device, nullptr});
      deliver(*batch.reader, batch.path, one_);
    } else {
      const std::uint64_t bytes = format::run_at(slice, first + runs - 1).src + slice.run_bytes - run.src;
      const std::byte* const window = read_window(*batch.reader, batch.path, begin, bytes);
      format::gather(slice, first, runs, window, request.dst);
      listener_.arrived(request.entry, runs * slice.run_bytes);
    }
    first += runs;
  }
}

}  // namespace st::core
