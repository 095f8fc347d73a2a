// SPDX-License-Identifier: Apache-2.0
#include "core/bulk_read.hpp"

#include <algorithm>
#include <chrono>

#include "base/error.hpp"

namespace st::core {

namespace {

using Clock = std::chrono::steady_clock;

constexpr unsigned kWaiters = 16;        // threads that read from disks and networks, and sleep most of the time
constexpr unsigned kMostCopiers = 16;    // threads that copy cached bytes: enough for the memory of any machine
constexpr unsigned kMostThreads = 1024;  // the caller may ask for more
constexpr std::uint64_t kBytesPerReader = std::uint64_t{512} << 10;  // to start a thread for less takes longer
constexpr auto kPromptly = std::chrono::milliseconds(20);            // a cancel should not wait longer for a read

constexpr std::uint64_t kLeastChunk = std::uint64_t{64} << 10;
constexpr std::uint64_t kMostChunk = std::uint64_t{1} << 30;
constexpr std::uint64_t kChunkStep = 4096;  // direct reads stay aligned from chunk to chunk

std::uint64_t usable_chunk(std::uint64_t wanted) {
  return wanted == 0 ? 0 : std::clamp(wanted, kLeastChunk, kMostChunk) / kChunkStep * kChunkStep;
}

bool all_hot(std::span<const Want> wants, std::deque<io::BulkFile>& files) {
  for (std::size_t i = 0; i < wants.size();) {
    const std::size_t file = wants[i].file;
    const std::uint64_t begin = wants[i].begin;
    std::uint64_t end = begin;
    for (; i < wants.size() && wants[i].file == file; ++i) end = std::max(end, wants[i].begin + wants[i].bytes);
    const bool hot = files[file].hot(begin, end);
    files[file].close_idle();  // a thousand shards may be asked before the first is read
    if (!hot) return false;
  }
  return true;
}

unsigned count_readers(std::span<const Want> wants, std::deque<io::BulkFile>& files, const ReadOptions& options) {
  if (options.threads != 0) return std::min(options.threads, kMostThreads);
  std::uint64_t bytes = 0;  // of the first wants: more would not change the result, and the sum could overflow
  for (std::size_t i = 0; i < wants.size() && bytes < kWaiters * kBytesPerReader; ++i) {
    bytes += std::min(wants[i].bytes, kWaiters * kBytesPerReader);
  }
  const std::uint64_t worth = bytes / kBytesPerReader + 1;
  if (worth == 1) return 1;
  const unsigned useful = all_hot(wants, files) ? std::min(hardware_threads(), kMostCopiers) : kWaiters;
  return static_cast<unsigned>(std::min<std::uint64_t>(worth, useful));
}

// The entry whose bytes lie at the offset at which a read failed.
std::size_t entry_at(const Piece& piece, std::uint64_t offset) {
  if (piece.parts.empty()) return piece.want->entry;
  const auto behind = std::find_if(piece.parts.begin(), piece.parts.end(),
                                   [offset](const Part& part) { return part.begin + part.bytes > offset; });
  return behind == piece.parts.end() ? piece.parts.front().entry : behind->entry;
}

// One thread that reads batches until there are no more.
class Worker {
 public:
  Worker(PieceQueue& queue, BulkReader& reader, bool reports)
      : queue_(queue), reader_(reader), reports_(reports), transfer_(reader) {}

  void work() {
    while (!reader_.stopped() && queue_.next(piece_)) {
      const Clock::time_point begin = Clock::now();
      carry_out();
      if (Clock::now() - begin > kPromptly) queue_.slow_down();
      if (reports_) reader_.report();
    }
  }

 private:
  void carry_out() {
    try {
      transfer_.carry_out(piece_);
    } catch (Error& error) {
      reader_.stop();
      const Tensor& tensor = reader_.tensor(entry_at(piece_, error.offset));
      error.message = fmt::format("tensor {}: {}", in_quotes(tensor.name()), error.message);
      throw;
    } catch (...) {
      reader_.stop();
      throw;
    }
  }

  PieceQueue& queue_;
  BulkReader& reader_;
  const bool reports_;
  Transfer transfer_;
  Piece piece_;
};

}  // namespace

void read_all(std::span<const Want> wants, std::deque<io::BulkFile>& files, const ReadOptions& options,
              BulkReader& reader) {
  if (wants.empty()) return;
  const unsigned readers = count_readers(wants, files, options);
  PieceQueue queue(wants, files, {readers, usable_chunk(options.chunk_bytes), options.gap_bytes});
  // One reader reports, so that the host's callback is never called from two threads at once.
  parallel_for(readers, readers, options.pool, [&](std::size_t i) { Worker(queue, reader, i == 0).work(); });
}

}  // namespace st::core
