// How a ReadExecutor delivers bytes to devices: by slots of staging memory.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "base/checked.hpp"
#include "core/read_executor.hpp"

namespace st::core {

// Returns memory to read into, of slot_bytes(), from which copies then begin; nullptr if the listener has stopped. A
// function of the caller that reads may run a plan which waits for a slot, so no slot is taken before it has returned.
std::byte* ReadExecutor::memory_for(Device& device, const io::SourceReader& reader) {
  if (!reader.source().traits().calls_back) return staging_.next_slot(device);
  return scratch(instead_of_slot_, device.slot_bytes());
}

// Returns false if the listener has stopped.
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

// Reads windows of the source, and has the device copy the ranges from them.
void ReadExecutor::stage_ranges(io::SourceReader& reader, io::ReadPath path, Ranges ranges) {
  Device& device = *ranges.front().device;
  std::uint64_t at = ranges.front().begin;
  for (std::size_t i = 0; i < ranges.size() && !listener_.stopped();) {
    at = std::max(at, ranges[i].begin);
    std::byte* const memory = memory_for(device, reader);
    if (memory == nullptr) return;
    const std::uint64_t window = align_down(at, alignment_of(reader, path));
    const std::uint64_t limit = window + std::min<std::uint64_t>(device.slot_bytes(), UINT64_MAX - window);
    for (bool whole = true; whole && i < ranges.size() && std::max(at, ranges[i].begin) < limit;) {
      const ReadRequest& range = ranges[i];
      at = std::max(at, range.begin);
      const std::uint64_t bytes = std::min(range.begin + range.bytes, limit) - at;
      add_device_copy(range.entry,
                      {range.dst + (at - range.begin), memory + (at - window), static_cast<std::size_t>(bytes)});
      arrivals_.push_back({range.entry, bytes});
      at += bytes;
      whole = at == range.begin + range.bytes;
      if (whole) ++i;
    }
    read_blocks(reader, path, window, at, memory);
    begin_copies(device, memory);
  }
}

// Gathers runs in slots, as many in each as it has room for, also if they lie so far apart that each is read by itself:
// the device is waited for once for each slot. Runs are no longer than half a slot.
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

// Reads runs, of which each but the last has the next one near it, to a place in a slot.
void ReadExecutor::stage_window(const ReadBatch& batch, std::uint64_t first, std::uint64_t runs, std::byte* to) {
  const ReadRequest& request = *batch.request;
  const format::Slice& slice = *request.slice;
  const std::uint64_t src = format::run_at(slice, first).src;
  const std::uint64_t begin = request.begin + (src - slice.src_begin);
  const std::uint64_t bytes = format::run_at(slice, first + runs - 1).src + slice.run_bytes - src;
  const bool in_place = runs == 1 && alignment_of(*batch.reader, batch.path) == 1;
  if (in_place) read_blocks(*batch.reader, batch.path, begin, begin + bytes, to);
  const std::byte* const window = in_place ? to : read_window(*batch.reader, batch.path, begin, bytes);
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

// Reads ranges that each have several destinations to scratch memory, and delivers them from there.
void ReadExecutor::share_ranges(io::SourceReader& reader, io::ReadPath path, Ranges ranges) {
  const std::uint64_t begin = ranges.front().begin;
  const std::byte* const window = read_window(reader, path, begin, ranges.back().begin + ranges.back().bytes - begin);
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

// Copies what the device gets of the ranges to its slots, one after another.
void ReadExecutor::stage_shared(Device& device, Ranges ranges, const std::byte* window, std::uint64_t begin) {
  const std::size_t room = device.slot_bytes();
  std::byte* slot = nullptr;
  std::size_t used = 0;
  for (const ReadRequest& range : ranges) {
    for (const ReadRequest* to = &range; to != nullptr; to = to->also) {
      if (to->device != &device) continue;
      for (std::uint64_t at = range.begin; at < range.begin + range.bytes && !listener_.stopped();) {
        if (slot == nullptr) slot = staging_.next_slot(device);
        if (slot == nullptr) return;
        const auto bytes =
            static_cast<std::size_t>(std::min<std::uint64_t>(range.begin + range.bytes - at, room - used));
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

// From the memory that was taken last.
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

// Neighbours in both memories make one copy, if they are of one destination: two destinations may lie in two allocations,
// which drivers do not fill by one copy.
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
