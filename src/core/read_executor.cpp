// SPDX-License-Identifier: Apache-2.0
#include "core/read_executor.hpp"

#include <algorithm>
#include <cstring>
#include <new>

#include "base/checked.hpp"
#include "io/buffer.hpp"

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
void join(const std::vector<ReadRequest>& ranges, std::vector<ReadRequest>& joined) {
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

}  // namespace

std::byte* ReadExecutor::scratch(std::uint64_t bytes) {
  if (bytes > pages_bytes_) {
    pages_.reset();
    pages_bytes_ = 0;
    if (bytes >= kLeastHuge) bytes = align_up(bytes, io::kBufferAlignment);
    pages_ = bytes >= kLeastHuge ? huge_pages(bytes) : small_pages(bytes);
    pages_bytes_ = bytes;
  }
  return pages_.get();
}

void ReadExecutor::execute(const ReadBatch& batch) {
  if (batch.ranges.empty()) return read_runs(batch);
  read_ranges(*batch.reader, batch.path, batch.ranges);
  for (const ReadRequest& range : batch.ranges) listener_.arrived(range.entry, range.bytes);
}

void ReadExecutor::read_ranges(io::SourceReader& reader, io::ReadPath path, const std::vector<ReadRequest>& ranges) {
  if (path == io::ReadPath::direct && try_ranges(reader, path, ranges)) return;
  // The path is not direct, or the system has just refused direct reads.
  if (path == io::ReadPath::direct) path = io::ReadPath::wait;
  (void)try_ranges(reader, path, ranges);
}

// The scratch memory is an image of the source from window_ on: bytes that cannot be read directly to their destination
// are read to their place in it. Returns false if the system refuses direct reads.
bool ReadExecutor::try_ranges(io::SourceReader& reader, io::ReadPath path, const std::vector<ReadRequest>& ranges) {
  const std::uint64_t alignment = path == io::ReadPath::direct ? reader.alignment() : 1;
  const std::uint64_t needed_end = ranges.back().begin + ranges.back().bytes;
  window_ = cursor_ = align_down(ranges.front().begin, alignment);
  const std::uint64_t end = align_up(needed_end, alignment);
  bounce_ = nullptr;
  reads_.clear();
  copies_.clear();
  join(ranges, joined_);
  const bool in_place = joined_.size() == 1 && alignment == 1;
  if (!in_place) bounce_ = scratch(end - window_);
  for (const ReadRequest& range : joined_) add_range(range, alignment);
  fill_up_to(end);
  if (!reader.read_many(path, reads_, needed_end)) return false;
  for (const Copy& copy : copies_) std::memcpy(copy.dst, bounce_ + (copy.from - window_), copy.bytes);
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

void ReadExecutor::read_window(io::SourceReader& reader, io::ReadPath path, std::uint64_t begin, std::uint64_t bytes) {
  const std::uint64_t alignment = path == io::ReadPath::direct ? reader.alignment() : 1;
  window_ = align_down(begin, alignment);
  const std::uint64_t window_bytes = align_up(begin + bytes, alignment) - window_;
  bounce_ = scratch(window_bytes);
  const io::Read all{window_, static_cast<std::size_t>(window_bytes), bounce_};
  if (reader.read_many(path, {&all, 1}, begin + bytes)) return;
  read_window(reader, io::ReadPath::wait, begin, bytes);
}

void ReadExecutor::read_runs(const ReadBatch& batch) {
  const ReadRequest& request = *batch.request;
  const format::Slice& slice = *request.slice;
  const std::uint64_t together = format::runs_within_gap(slice, batch.gap);
  const std::uint64_t end = batch.first_run + batch.runs;
  for (std::uint64_t first = batch.first_run; first < end && !listener_.stopped();) {
    const std::uint64_t most = std::min(end - first, together - first % together);
    const std::uint64_t runs = format::runs_that_fit(slice, first, most, batch.room);
    const format::Run run = format::run_at(slice, first);
    const std::uint64_t begin = request.begin + (run.src - slice.src_begin);
    if (runs == 1) {
      one_.assign(1, {request.source, begin, slice.run_bytes, request.dst + run.dst, request.entry, nullptr});
      read_ranges(*batch.reader, batch.path, one_);
    } else {
      const std::uint64_t bytes = format::run_at(slice, first + runs - 1).src + slice.run_bytes - run.src;
      read_window(*batch.reader, batch.path, begin, bytes);
      format::gather(slice, first, runs, bounce_ + (begin - window_), request.dst);
    }
    listener_.arrived(request.entry, runs * slice.run_bytes);
    first += runs;
  }
}

}  // namespace st::core
