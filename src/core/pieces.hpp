// Divides the reads of a plan (wants) into batches (pieces), one at a time and in the order of the files.
//
// There is no list of batches: the queue is a position in the sorted wants, and a slice of ten million runs is one
// want. Each batch is made when a thread asks for it, because other parts of a file may be cached by then.
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

// A request of the plan: to read a range of a file to `dst`, or the runs of a slice inside that range.
struct Want {
  std::size_t file = 0;     // index into the queue's files
  std::uint64_t begin = 0;  // in the file
  std::uint64_t bytes = 0;  // of the range
  std::byte* dst = nullptr;
  std::size_t entry = 0;                 // number in the plan
  const format::Slice* slice = nullptr;  // null: the whole range
};

// A range of a file that is read in one go, and where its bytes go.
struct Part {
  std::uint64_t begin = 0;
  std::uint64_t bytes = 0;
  std::byte* dst = nullptr;
  std::size_t entry = 0;
};

// A batch: what one thread reads before it takes the next one.
struct Piece {
  io::BulkFile* file = nullptr;
  io::Way way = io::Way::copy;
  std::vector<Part> parts;  // ascending, without overlap, with gaps of at most `gap`; empty: runs of a slice
  const Want* want = nullptr;
  std::uint64_t first_run = 0;
  std::uint64_t runs = 0;
  std::uint64_t room = 0;  // of runs: how many bytes of the file one read may span
  std::uint64_t gap = 0;   // how many unwanted bytes may be read between two ranges
};

struct Cutting {
  unsigned readers = 1;
  std::uint64_t chunk_bytes = 0;  // 0: chosen by the way and the number of readers
  std::uint64_t gap_bytes = 0;    // 0: chosen likewise
};

class PieceQueue {
 public:
  // `wants` sorted by (file, begin).
  PieceQueue(std::span<const Want> wants, std::deque<io::BulkFile>& files, const Cutting& cutting)
      : wants_(wants), files_(files), cutting_(cutting) {}

  // Makes the next batch, in the memory of `piece`. Returns false if there is none left.
  bool next(Piece& piece);

  // Halves the size of later batches. To be called after one took so long that a cancel would have had to wait.
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
  std::size_t want_ = 0;     // the next want, of which is done:
  std::uint64_t taken_ = 0;  // bytes of the range, or of the current run
  std::uint64_t run_ = 0;    // whole runs
  std::size_t file_ = SIZE_MAX;
  std::uint64_t file_end_ = 0;   // where the last want of the file ends
  std::uint64_t block_end_ = 0;  // way_ is decided up to here
  io::Way way_ = io::Way::copy;
  std::uint64_t most_ = UINT64_MAX;
};

}  // namespace st::core
