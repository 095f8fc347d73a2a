// SPDX-License-Identifier: Apache-2.0
#include "core/pieces.hpp"

#include <algorithm>

namespace st::core {

namespace {

constexpr std::uint64_t kKiB = 1024;
constexpr std::uint64_t kMiB = 1024 * kKiB;

constexpr std::uint64_t kDecisionBytes = 16 * kMiB;  // the page cache is asked once for so many bytes
constexpr std::uint64_t kInFlight = 32 * kMiB;       // direct reads of all threads together that keep a fast disk busy
constexpr std::uint64_t kLeastDirect = 1 * kMiB;
constexpr std::uint64_t kMostDirect = 16 * kMiB;
constexpr std::uint64_t kCopyBytes = 8 * kMiB;  // so that few threads share a huge page of the destination
constexpr std::uint64_t kWaitBytes = 1 * kMiB;
constexpr std::uint64_t kRunWindow = 256 * kKiB;  // for runs that are cached: fits the cache of a core
constexpr std::uint64_t kLeastRunBytes = 256 * kKiB;
constexpr std::uint64_t kLeastPiece = 128 * kKiB;
constexpr std::size_t kMostParts = 400;  // ranges in one batch

// A gap between two ranges is read with them if that takes no longer than another request. For cached bytes a request
// is a system call. For a disk it is a wait, and several threads wait at the same time until the disk answers no
// faster: skipping was slower for gaps of less than 128 KiB with one thread, and for gaps of less than 16 KiB with
// eight and more.
constexpr std::uint64_t kCopyGap = 1 * kKiB;
constexpr std::uint64_t kAloneGap = 128 * kKiB;
constexpr std::uint64_t kManyGap = 16 * kKiB;

// Returns UINT64_MAX if the next multiple does not fit 64 bits: a source may be 2^64 - 1 bytes long.
std::uint64_t next_multiple(std::uint64_t at, std::uint64_t of) {
  const std::uint64_t before = at / of * of;
  return before > UINT64_MAX - of ? UINT64_MAX : before + of;
}

}  // namespace

void PieceQueue::slow_down() {
  const std::lock_guard lock(mutex_);
  most_ = std::max(kLeastPiece, std::min(most_, kMostDirect) / 2);
}

void PieceQueue::enter_file(std::size_t file) {
  if (file == file_) return;
  if (file_ != SIZE_MAX) files_[file_].retire();
  file_ = file;
  block_end_ = 0;
  file_end_ = 0;
  for (std::size_t i = want_; i < wants_.size() && wants_[i].file == file; ++i) {
    file_end_ = std::max(file_end_, wants_[i].begin + wants_[i].bytes);
  }
}

io::Way PieceQueue::way_at(std::uint64_t at) {
  if (at >= block_end_ || block_end_ - at > kDecisionBytes) {
    block_end_ = next_multiple(at, kDecisionBytes);
    way_ = files_[file_].way(at, std::min(block_end_, file_end_));
  }
  return way_;
}

std::uint64_t PieceQueue::piece_bytes(io::Way way) const {
  if (cutting_.chunk_bytes != 0) return std::min(cutting_.chunk_bytes, most_);
  const std::uint64_t direct = std::clamp(kInFlight / cutting_.readers / kMiB * kMiB, kLeastDirect, kMostDirect);
  const std::uint64_t usual = way == io::Way::direct ? direct : way == io::Way::copy ? kCopyBytes : kWaitBytes;
  return std::min(usual, most_);
}

std::uint64_t PieceQueue::gap_bytes(io::Way way) const {
  if (cutting_.gap_bytes != 0) return cutting_.gap_bytes;
  return way == io::Way::copy ? kCopyGap : std::max(kAloneGap / cutting_.readers, kManyGap);
}

bool PieceQueue::next(Piece& piece) {
  const std::lock_guard lock(mutex_);
  if (want_ == wants_.size()) return false;
  const Want& want = wants_[want_];
  enter_file(want.file);
  const std::uint64_t at = want.slice == nullptr
                               ? want.begin + taken_
                               : want.begin + format::run_at(*want.slice, run_).src - want.slice->src_begin + taken_;
  piece.file = &files_[file_];
  piece.way = way_at(at);
  piece.gap = gap_bytes(piece.way);
  piece.parts.clear();
  piece.want = &want;
  const std::uint64_t room = piece_bytes(piece.way);
  if (want.slice == nullptr) {
    cut_stretches(piece, room);
  } else if (want.slice->run_bytes > kMiB) {
    cut_long_run(piece, room);
  } else {
    cut_runs(piece, room);
  }
  return true;
}

// Takes wants up to the next multiple of `room` in the file, so that each batch of direct reads begins aligned, as long
// as the gaps between them are short enough.
void PieceQueue::cut_stretches(Piece& piece, std::uint64_t room) {
  const std::uint64_t limit = next_multiple(wants_[want_].begin + taken_, room);
  std::uint64_t end = wants_[want_].begin + taken_;
  while (want_ < wants_.size() && piece.parts.size() < kMostParts) {
    const Want& want = wants_[want_];
    const std::uint64_t begin = want.begin + taken_;
    const bool here = want.file == file_ && want.slice == nullptr && begin >= end && begin < limit;
    if (!here || begin - end > piece.gap) break;
    const std::uint64_t bytes = std::min(want.bytes - taken_, limit - begin);
    piece.parts.push_back({begin, bytes, want.dst + taken_, want.entry});
    end = begin + bytes;
    taken_ += bytes;
    if (taken_ < want.bytes) break;
    taken_ = 0;
    ++want_;
  }
}

// Runs this long get batches of their own, several if need be.
void PieceQueue::cut_long_run(Piece& piece, std::uint64_t room) {
  const Want& want = wants_[want_];
  const format::Run run = format::run_at(*want.slice, run_);
  const std::uint64_t begin = want.begin + (run.src - want.slice->src_begin) + taken_;
  const std::uint64_t bytes = std::min(want.slice->run_bytes - taken_, next_multiple(begin, room) - begin);
  piece.parts.push_back({begin, bytes, want.dst + run.dst + taken_, want.entry});
  taken_ += bytes;
  if (taken_ < want.slice->run_bytes) return;
  taken_ = 0;
  if (++run_ < format::run_count(*want.slice)) return;
  run_ = 0;
  ++want_;
}

void PieceQueue::cut_runs(Piece& piece, std::uint64_t room) {
  const Want& want = wants_[want_];
  const format::Slice& slice = *want.slice;
  const std::uint64_t total = format::run_count(slice);
  // So many runs that taking the next batch costs little in comparison, even if they lie far apart.
  const std::uint64_t least = std::min(total - run_, kLeastRunBytes / slice.run_bytes + 1);
  piece.first_run = run_;
  piece.runs = std::max(least, format::runs_that_fit(slice, run_, total - run_, room));
  piece.room = std::max(piece.way == io::Way::copy ? std::min(room, kRunWindow) : room - room / 16, slice.run_bytes);
  run_ += piece.runs;
  if (run_ < total) return;
  run_ = 0;
  ++want_;
}

}  // namespace st::core
