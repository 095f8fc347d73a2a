// SPDX-License-Identifier: Apache-2.0
#include "core/transfer.hpp"

#include <algorithm>
#include <cstring>
#include <new>

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

std::uint64_t align_down(std::uint64_t value, std::uint64_t to) { return value / to * to; }
std::uint64_t align_up(std::uint64_t value, std::uint64_t to) { return align_down(value + to - 1, to); }

using Pages = std::unique_ptr<std::byte[], void (*)(std::byte*)>;

Pages small_pages(std::uint64_t bytes) {
  return {static_cast<std::byte*>(::operator new[](static_cast<std::size_t>(bytes), kScratchAlignment)),
          [](std::byte* pages) { ::operator delete[](pages, kScratchAlignment); }};
}

Pages huge_pages(std::uint64_t bytes) {
  return {io::new_buffer(bytes, io::Pages::as_they_are_touched, 1), io::free_buffer};
}

// Joins ranges that are adjacent in the file and in memory.
void join(const std::vector<Part>& parts, std::vector<Part>& joined) {
  joined.clear();
  for (const Part& part : parts) {
    if (!joined.empty() && joined.back().begin + joined.back().bytes == part.begin &&
        joined.back().dst + joined.back().bytes == part.dst) {
      joined.back().bytes += part.bytes;
    } else {
      joined.push_back(part);
    }
  }
}

}  // namespace

std::byte* Transfer::scratch(std::uint64_t bytes) {
  if (bytes > pages_bytes_) {
    pages_.reset();
    pages_bytes_ = 0;
    if (bytes >= kLeastHuge) bytes = align_up(bytes, io::kBufferAlignment);
    pages_ = bytes >= kLeastHuge ? huge_pages(bytes) : small_pages(bytes);
    pages_bytes_ = bytes;
  }
  return pages_.get();
}

void Transfer::carry_out(const Piece& piece) {
  if (piece.parts.empty()) return read_runs(piece);
  read_parts(*piece.file, piece.way, piece.parts);
  for (const Part& part : piece.parts) receiver_.arrived(part.entry, part.bytes);
}

void Transfer::read_parts(io::BulkFile& file, io::Way way, const std::vector<Part>& parts) {
  if (way == io::Way::direct && try_parts(file, way, parts)) return;
  // The way is not direct, or the system has just refused direct reads.
  if (way == io::Way::direct) way = io::Way::wait;
  (void)try_parts(file, way, parts);
}

// The scratch memory is an image of the file from window_ on: bytes that cannot be read directly to their destination
// are read to their place in it. Returns false if the system refuses direct reads.
bool Transfer::try_parts(io::BulkFile& file, io::Way way, const std::vector<Part>& parts) {
  const std::uint64_t alignment = way == io::Way::direct ? file.alignment() : 1;
  const std::uint64_t needed_end = parts.back().begin + parts.back().bytes;
  window_ = cursor_ = align_down(parts.front().begin, alignment);
  const std::uint64_t end = align_up(needed_end, alignment);
  bounce_ = nullptr;
  segments_.clear();
  copies_.clear();
  join(parts, joined_);
  const bool in_place = joined_.size() == 1 && alignment == 1;
  if (!in_place) bounce_ = scratch(end - window_);
  for (const Part& part : joined_) add_part(part, alignment);
  fill_up_to(end);
  if (!file.read(way, window_, segments_, needed_end - window_)) return false;
  for (const Copy& copy : copies_) std::memcpy(copy.dst, bounce_ + (copy.from - window_), copy.bytes);
  return true;
}

void Transfer::add_part(const Part& part, std::uint64_t alignment) {
  const std::uint64_t end = part.begin + part.bytes;
  const std::uint64_t first = align_up(part.begin, alignment);
  const std::uint64_t last = align_down(end, alignment);
  std::byte* const place = part.dst + (first - part.begin);
  const bool fits = reinterpret_cast<std::uintptr_t>(place) % alignment == 0;
  const std::uint64_t least = alignment == 1 ? 1 : kLeastInPlace;
  if (!fits || last < first || last - first < least) {
    copies_.push_back({part.begin, part.bytes, part.dst});
    return;
  }
  fill_up_to(first);
  segments_.push_back({place, static_cast<std::size_t>(last - first)});
  cursor_ = last;
  if (first != part.begin) copies_.push_back({part.begin, first - part.begin, part.dst});
  if (last != end) copies_.push_back({last, end - last, place + (last - first)});
}

void Transfer::fill_up_to(std::uint64_t end) {
  if (end <= cursor_) return;
  segments_.push_back({bounce_ + (cursor_ - window_), static_cast<std::size_t>(end - cursor_)});
  cursor_ = end;
}

void Transfer::read_window(io::BulkFile& file, io::Way way, std::uint64_t begin, std::uint64_t bytes) {
  const std::uint64_t alignment = way == io::Way::direct ? file.alignment() : 1;
  window_ = align_down(begin, alignment);
  bounce_ = scratch(align_up(begin + bytes, alignment) - window_);
  const io::Segment all{bounce_, static_cast<std::size_t>(align_up(begin + bytes, alignment) - window_)};
  if (file.read(way, window_, {&all, 1}, begin + bytes - window_)) return;
  read_window(file, io::Way::wait, begin, bytes);
}

void Transfer::read_runs(const Piece& piece) {
  const format::Slice& slice = *piece.want->slice;
  const std::uint64_t together = format::runs_within_gap(slice, piece.gap);
  const std::uint64_t end = piece.first_run + piece.runs;
  for (std::uint64_t first = piece.first_run; first < end && !receiver_.stopped();) {
    const std::uint64_t most = std::min(end - first, together - first % together);
    const std::uint64_t runs = format::runs_that_fit(slice, first, most, piece.room);
    const format::Run run = format::run_at(slice, first);
    const std::uint64_t begin = piece.want->begin + (run.src - slice.src_begin);
    if (runs == 1) {
      one_.assign(1, {begin, slice.run_bytes, piece.want->dst + run.dst, piece.want->entry});
      read_parts(*piece.file, piece.way, one_);
    } else {
      const std::uint64_t bytes = format::run_at(slice, first + runs - 1).src + slice.run_bytes - run.src;
      read_window(*piece.file, piece.way, begin, bytes);
      format::gather(slice, first, runs, bounce_ + (begin - window_), piece.want->dst);
    }
    receiver_.arrived(piece.want->entry, runs * slice.run_bytes);
    first += runs;
  }
}

}  // namespace st::core
