// Cutting what a plan wants into pieces of work, one at a time and in the order of the files.
//
// There is no list of pieces: the queue is a position in the sorted wants, and a slice of ten million runs is one
// want. Each piece is decided when it is cut, since what the page cache holds differs along a file.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <span>
#include <vector>

#include "format/slice.hpp"
#include "io/bulk_file.hpp"

namespace st::core {

// One stretch of a file and where it goes, or the stretch that holds the runs of a slice.
struct Want {
  std::size_t file = 0;     // into the queue's files
  std::uint64_t begin = 0;  // absolute
  std::uint64_t bytes = 0;  // of the stretch
  std::byte* dst = nullptr;
  std::size_t entry = 0;                 // of the plan
  const format::Slice* slice = nullptr;  // null: the stretch itself
};

struct Part {
  std::uint64_t begin = 0;
  std::uint64_t bytes = 0;
  std::byte* dst = nullptr;
  std::size_t entry = 0;
};

struct Piece {
  io::BulkFile* file = nullptr;
  io::Way way = io::Way::copy;
  std::vector<Part> parts;  // ascending, close to one another, none overlaps; empty: runs of a slice instead
  const Want* want = nullptr;
  std::uint64_t first_run = 0;
  std::uint64_t runs = 0;
  std::uint64_t room = 0;  // how much of the file to fetch at once for them
  std::uint64_t gap = 0;   // what may be fetched along between them
};

struct Cutting {
  unsigned readers = 1;
  std::uint64_t chunk_bytes = 0;  // 0: as the way and the number of readers suggest
  std::uint64_t gap_bytes = 0;    // 0: as the way suggests
};

class PieceQueue {
 public:
  // `wants` sorted by (file, begin).
  PieceQueue(std::span<const Want> wants, std::deque<io::BulkFile>& files, const Cutting& cutting)
      : wants_(wants), files_(files), cutting_(cutting) {}

  // False when there is nothing left. Reuses the piece's memory.
  bool next(Piece& piece);

  // A piece took too long for cancelling to be prompt: cut smaller ones from now on.
  void slow_down();

 private:
  void enter_file(std::size_t file);
  io::Way way_at(std::uint64_t at);
  std::uint64_t piece_bytes(io::Way way) const;
  std::uint64_t gap_bytes(io::Way way) const;
  void cut_stretches(Piece& piece, std::uint64_t room);
  void cut_runs(Piece& piece, std::uint64_t room);
  void cut_long_run(Piece& piece, std::uint64_t room);

  const std::span<const Want> wants_;
  std::deque<io::BulkFile>& files_;
  const Cutting cutting_;

  std::mutex mutex_;
  std::size_t want_ = 0;     // the next one, and how far it is cut:
  std::uint64_t taken_ = 0;  // bytes of the stretch, or of the run
  std::uint64_t run_ = 0;
  std::size_t file_ = SIZE_MAX;
  std::uint64_t file_end_ = 0;   // of what is wanted of it
  std::uint64_t block_end_ = 0;  // up to where way_ was decided
  io::Way way_ = io::Way::copy;
  std::uint64_t most_ = UINT64_MAX;
};

}  // namespace st::core
