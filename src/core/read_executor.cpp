// SPDX-License-Identifier: Apache-2.0
#include "core/read_executor.hpp"

#include <algorithm>
#include <cstring>
#include <new>

#include "base/checked.hpp"
#include "io/memory.hpp"

namespace st::core {

namespace {

constexpr std::align_val_t kScratchAlignment{65536};  // no disk needs more

// From this size on, scratch memory is on huge pages. With 4 KiB pages the kernel splits a read into requests of at most
// 1 MiB: windows of 16 MiB of an uncached matrix took 77 ms on small pages and 31 ms on huge ones.
constexpr std::uint64_t kLeastHuge = std::uint64_t{1} << 20;

// Shorter ranges of a direct read go through scratch memory: copying them takes less time than one more buffer. Read in
// place, 16,000 separate tensors of 4 KiB took 104 ms instead of 36 ms. Tensors of 8 and 12 KiB took about the same
// time either way.
constexpr std::uint64_t kLeastInPlace = std::uint64_t{16} << 10;

using Pages = std::unique_ptr<std::byte[], void (*)(std::byte*)>;

Pages small_pages(std::uint64_t bytes) {
  return {static_cast<std::byte*>(::operator new[](static_cast<std::size_t>(bytes), kScratchAlignment)),
          [](std::byte* pages) { ::operator delete[](pages, kScratchAlignment); }};
}

Pages huge_pages(std::uint64_t bytes) {
  return {io::new_buffer(bytes, io::Pages::as_they_are_touched, 1), io::free_buffer};
}

// Merges ranges that are adjacent in the source and in memory. Without this, a plan of 20,000 adjacent tensors of 256
// bytes takes 6.7 million instructions instead of 4.0 million.
void merge_adjacent(std::span<const ReadRequest> ranges, std::vector<ReadRequest>& merged) {
  merged.clear();
  for (const ReadRequest& range : ranges) {
    if (!merged.empty() && end_of(merged.back()) == range.begin &&
        merged.back().dst + merged.back().bytes == range.dst) {
      merged.back().bytes += range.bytes;
    } else {
      merged.push_back(range);
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

// Reads the bytes from `begin`, which is aligned, to `end`, in whole blocks for direct reads. The memory is large
// enough for that.
void ReadExecutor::read_blocks(io::SourceReader& reader, io::ReadPath path, std::uint64_t begin, std::uint64_t end,
                               std::byte* memory) {
  const std::uint64_t last = align_up(end, alignment_of(reader, path));
  const io::Read blocks{begin, static_cast<std::size_t>(last - begin), memory};
  // The system would reject a misaligned address, and the file's other reads would no longer be direct.
  const bool fits = reinterpret_cast<std::uintptr_t>(memory) % alignment_of(reader, path) == 0;
  if (fits && read_many(reader, path, {&blocks, 1}, end)) return;
  const io::Read bytes{begin, static_cast<std::size_t>(end - begin), memory};
  (void)read_many(reader, io::ReadPath::buffered, {&bytes, 1}, end);
}

bool ReadExecutor::read_many(io::SourceReader& reader, io::ReadPath path, std::span<const io::Read> reads,
                             std::uint64_t needed_end) {
  if (!reader.read_many(path, reads, needed_end)) return false;
  const io::Read& last = reads.back();
  counts_.bytes_read += last.offset + last.bytes - reads.front().offset;
  counts_.reads += reader.source().traits().joins_reads ? 1 : reads.size();
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

// Delivers ranges that are all delivered in the same way: see delivered_alike().
void ReadExecutor::deliver(io::SourceReader& reader, io::ReadPath path, Ranges ranges) {
  if (ranges.front().also != nullptr) return read_shared(reader, path, ranges);
  if (ranges.front().device != nullptr) return stage_ranges(reader, path, ranges);
  read_ranges(reader, path, ranges);
  for (const ReadRequest& range : ranges) listener_.arrived(range.entry, range.bytes);
}

void ReadExecutor::read_ranges(io::SourceReader& reader, io::ReadPath path, Ranges ranges) {
  if (try_ranges(reader, path, ranges)) return;
  (void)try_ranges(reader, io::ReadPath::buffered, ranges);  // the system has just rejected a direct read
}

// Reads each range to its destination where the alignment allows it. Scratch memory is an image of the source from window_
// on, for gaps and for all other bytes. Returns false if the system rejects direct reads.
bool ReadExecutor::try_ranges(io::SourceReader& reader, io::ReadPath path, Ranges ranges) {
  const std::uint64_t alignment = alignment_of(reader, path);
  const std::uint64_t needed_end = end_of(ranges.back());
  window_ = cursor_ = align_down(ranges.front().begin, alignment);
  const std::uint64_t end = align_up(needed_end, alignment);
  reads_.clear();
  copies_.clear();
  merge_adjacent(ranges, merged_);
  const bool in_place = merged_.size() == 1 && alignment == 1;
  bounce_ = in_place ? nullptr : scratch(scratch_, end - window_);
  for (const ReadRequest& range : merged_) add_range(range, alignment);
  fill_up_to(end);
  if (!read_many(reader, path, reads_, needed_end)) return false;
  for (const io::Read& copy : copies_) std::memcpy(copy.dst, bounce_ + (copy.offset - window_), copy.bytes);
  return true;
}

void ReadExecutor::add_range(const ReadRequest& range, std::uint64_t alignment) {
  const std::uint64_t end = end_of(range);
  const std::uint64_t first = align_up(range.begin, alignment);
  const std::uint64_t last = align_down(end, alignment);
  std::byte* const place = range.dst + (first - range.begin);
  const bool fits = reinterpret_cast<std::uintptr_t>(place) % alignment == 0;
  const std::uint64_t least = alignment == 1 ? 1 : kLeastInPlace;
  if (!fits || last < first || last - first < least) {
    copies_.push_back({range.begin, static_cast<std::size_t>(range.bytes), range.dst});
    return;
  }
  fill_up_to(first);
  reads_.push_back({first, static_cast<std::size_t>(last - first), place});
  cursor_ = last;
  if (first != range.begin) copies_.push_back({range.begin, static_cast<std::size_t>(first - range.begin), range.dst});
  if (last != end) copies_.push_back({last, static_cast<std::size_t>(end - last), place + (last - first)});
}

void ReadExecutor::fill_up_to(std::uint64_t end) {
  if (end <= cursor_) return;
  reads_.push_back({cursor_, static_cast<std::size_t>(end - cursor_), bounce_ + (cursor_ - window_)});
}

// Reads to scratch memory, and returns the address of `begin` there.
const std::byte* ReadExecutor::read_window(io::SourceReader& reader, io::ReadPath path, std::uint64_t begin,
                                           std::uint64_t bytes) {
  const std::uint64_t alignment = alignment_of(reader, path);
  const std::uint64_t first = align_down(begin, alignment);
  std::byte* const memory = scratch(scratch_, align_up(begin + bytes, alignment) - first);
  read_blocks(reader, path, first, begin + bytes, memory);
  return memory + (begin - first);
}

// Returns the address of a position in the memory of the batch's source.
const std::byte* ReadExecutor::in_memory(const ReadBatch& batch, std::uint64_t position) {
  return batch.memory + (position - batch.reader->source().traits().origin);
}

void ReadExecutor::copy_runs(const ReadBatch& batch) {
  const ReadRequest& request = *batch.request;
  const format::Slice& slice = *request.slice;
  const std::uint64_t bytes = batch.runs * slice.run_bytes;
  const std::uint64_t begin = request.begin + (format::run_at(slice, batch.first_run).src - slice.src_begin);
  format::gather(slice, batch.first_run, batch.runs, in_memory(batch, begin), request.dst);
  counts_.bytes_read += bytes;
  listener_.arrived(request.entry, bytes);
}

void ReadExecutor::read_runs(const ReadBatch& batch) {
  const ReadRequest& request = *batch.request;
  const format::Slice& slice = *request.slice;
  const bool for_device = request.device != nullptr;
  if (for_device && slice.run_bytes <= request.device->slot_bytes() / 2) return stage_runs(batch);
  if (batch.memory != nullptr && !for_device) return copy_runs(batch);
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

// Returns slot_bytes() of memory to read into and then copy from; nullptr if the listener has stopped. A source that calls
// a function of the caller gets no slot: that function may run a plan that waits for a slot.
std::byte* ReadExecutor::memory_for(Device& device, const io::SourceReader& reader) {
  if (!reader.source().traits().calls_back) return staging_.next_slot(device);
  return scratch(instead_of_slot_, device.slot_bytes());
}

// Moves the bytes of the device copies from instead_of_slot_ to a slot. Returns false if the listener has stopped.
bool ReadExecutor::move_to_slot(Device& device) {
  std::byte* const slot = staging_.next_slot(device);
  if (slot == nullptr) return false;
  for (DeviceCopy& copy : device_copies_) {
    std::byte* const to = slot + (static_cast<const std::byte*>(copy.src) - instead_of_slot_.pages.get());
    std::memcpy(to, copy.src, copy.bytes);
    copy.src = to;
  }
  return true;
}

// Reads windows of the source to slots. The device copies the ranges from there.
void ReadExecutor::stage_ranges(io::SourceReader& reader, io::ReadPath path, Ranges ranges) {
  Device& device = *ranges.front().device;
  std::uint64_t at = ranges.front().begin;
  for (std::size_t i = 0; i < ranges.size() && !listener_.stopped();) {
    at = std::max(at, ranges[i].begin);
    std::byte* const memory = memory_for(device, reader);
    if (memory == nullptr) return;
    const std::uint64_t window = align_down(at, alignment_of(reader, path));
    const std::uint64_t limit = window + std::min<std::uint64_t>(device.slot_bytes(), UINT64_MAX - window);
    while (i < ranges.size() && std::max(at, ranges[i].begin) < limit) {
      const ReadRequest& range = ranges[i];
      at = std::max(at, range.begin);
      const std::uint64_t bytes = std::min(end_of(range), limit) - at;
      add_device_copy(range.entry,
                      {range.dst + (at - range.begin), memory + (at - window), static_cast<std::size_t>(bytes)});
      arrivals_.push_back({range.entry, bytes});
      at += bytes;
      if (at == end_of(range)) ++i;
    }
    read_blocks(reader, path, window, at, memory);
    begin_copies(device, memory);
  }
}

// Gathers runs that are at most half a slot long in slots. Each slot is filled, even with runs that are read one by
// one, because the thread waits for the device once per slot.
void ReadExecutor::stage_runs(const ReadBatch& batch) {
  const format::Slice& slice = *batch.request->slice;
  Device& device = *batch.request->device;
  const std::uint64_t together = format::runs_within_gap(slice, batch.gap);
  const std::uint64_t end = batch.first_run + batch.runs;
  for (std::uint64_t first = batch.first_run; first < end && !listener_.stopped();) {
    std::byte* const memory = memory_for(device, *batch.reader);
    if (memory == nullptr) return;
    std::byte* to = memory;
    const std::uint64_t last = first + std::min(end - first, device.slot_bytes() / slice.run_bytes);
    while (first < last && !listener_.stopped()) {
      const std::uint64_t most = std::min(last - first, together - first % together);
      const std::uint64_t runs = format::runs_that_fit(slice, first, most, batch.room);
      stage_window(batch, first, runs, to);
      to += runs * slice.run_bytes;
      first += runs;
    }
    device_copies_.empty() ? staging_.give_back() : begin_copies(device, memory);  // empty: the run was stopped
  }
}

// Reads runs that are close together, and writes them one after another to `to`, a place in a slot.
void ReadExecutor::stage_window(const ReadBatch& batch, std::uint64_t first, std::uint64_t runs, std::byte* to) {
  const ReadRequest& request = *batch.request;
  const format::Slice& slice = *request.slice;
  const std::uint64_t src = format::run_at(slice, first).src;
  const std::uint64_t begin = request.begin + (src - slice.src_begin);
  const std::uint64_t bytes = format::run_at(slice, first + runs - 1).src + slice.run_bytes - src;
  const bool copied = batch.memory != nullptr;
  const bool in_place = !copied && runs == 1 && alignment_of(*batch.reader, batch.path) == 1;
  if (in_place) read_blocks(*batch.reader, batch.path, begin, begin + bytes, to);
  if (copied) counts_.bytes_read += runs * slice.run_bytes;
  const std::byte* const window = copied     ? in_memory(batch, begin)
                                  : in_place ? to
                                             : read_window(*batch.reader, batch.path, begin, bytes);
  for (const std::uint64_t end = first + runs; first < end;) {
    const format::Row row = format::row_at(slice, first, end - first);
    if (!in_place) {
      format::gather(slice, first, row.runs, window + (format::run_at(slice, first).src - src), to, row.dst);
    }
    const auto row_bytes = static_cast<std::size_t>(row.runs * slice.run_bytes);
    add_device_copy(request.entry, {request.dst + row.dst, to, row_bytes});
    to += row_bytes;
    first += row.runs;
  }
  if (arrivals_.empty()) arrivals_.push_back({request.entry, 0});
  arrivals_.back().bytes += runs * slice.run_bytes;
}

// Reads ranges with several destinations to scratch memory, and copies them to each destination from there.
void ReadExecutor::read_shared(io::SourceReader& reader, io::ReadPath path, Ranges ranges) {
  const std::uint64_t begin = ranges.front().begin;
  const std::byte* const window = read_window(reader, path, begin, end_of(ranges.back()) - begin);
  devices_.clear();
  for (const ReadRequest& range : ranges) {
    const std::byte* const bytes = window + (range.begin - begin);
    for (const ReadRequest* to = &range; to != nullptr; to = to->also) {
      if (to->device == nullptr) {
        std::memcpy(to->dst + (range.begin - to->begin), bytes, static_cast<std::size_t>(range.bytes));
        listener_.arrived(to->entry, range.bytes);
      } else if (std::find(devices_.begin(), devices_.end(), to->device) == devices_.end()) {
        devices_.push_back(to->device);
      }
    }
  }
  for (Device* const device : devices_) stage_shared(*device, ranges, window, begin);
}

// Copies the device's part of the ranges to slots, one after another.
void ReadExecutor::stage_shared(Device& device, Ranges ranges, const std::byte* window, std::uint64_t begin) {
  const std::size_t room = device.slot_bytes();
  std::byte* slot = nullptr;
  std::size_t used = 0;
  for (const ReadRequest& range : ranges) {
    for (const ReadRequest* to = &range; to != nullptr; to = to->also) {
      if (to->device != &device) continue;
      for (std::uint64_t at = range.begin; at < end_of(range) && !listener_.stopped();) {
        if (slot == nullptr) slot = staging_.next_slot(device);
        if (slot == nullptr) return;
        const auto bytes = static_cast<std::size_t>(std::min<std::uint64_t>(end_of(range) - at, room - used));
        std::memcpy(slot + used, window + (at - begin), bytes);
        add_device_copy(to->entry, {to->dst + (at - to->begin), slot + used, bytes});
        arrivals_.push_back({to->entry, bytes});
        used += bytes;
        at += bytes;
        if (used < room) continue;
        begin_copies(device, slot);
        slot = nullptr;
        used = 0;
      }
    }
  }
  if (used != 0) begin_copies(device, slot);
}

// Begins the device copies. Their source is the memory that was taken last.
void ReadExecutor::begin_copies(Device& device, const std::byte* memory) {
  const bool in_slot = memory != instead_of_slot_.pages.get() || move_to_slot(device);
  if (in_slot) {
    staging_.begin_copies(device_copies_, arrivals_);
    counts_.copies += device_copies_.size();
    for (const Arrival& arrival : arrivals_) counts_.bytes_copied += arrival.bytes;
  }
  device_copies_.clear();
  arrivals_.clear();
}

// Merges copies that are adjacent in both memories and have one destination. A driver's copy cannot cross allocations, and
// two destinations may be in two.
void ReadExecutor::add_device_copy(std::size_t entry, const DeviceCopy& copy) {
  if (!device_copies_.empty() && copied_entry_ == entry) {
    DeviceCopy& last = device_copies_.back();
    if (static_cast<std::byte*>(last.dst) + last.bytes == copy.dst &&
        static_cast<const std::byte*>(last.src) + last.bytes == copy.src) {
      last.bytes += copy.bytes;
      return;
    }
  }
  copied_entry_ = entry;
  device_copies_.push_back(copy);
}

}  // namespace st::core
