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
constexpr std::uint64_t kBytesPerThread = std::uint64_t{512} << 10;  // to start a thread for less takes longer
constexpr auto kPromptly = std::chrono::milliseconds(20);            // a cancel should not wait longer for a read

constexpr std::uint64_t kLeastChunk = std::uint64_t{64} << 10;
constexpr std::uint64_t kMostChunk = std::uint64_t{1} << 30;
constexpr std::uint64_t kChunkStep = 4096;  // direct reads stay aligned from chunk to chunk

std::uint64_t usable_chunk(std::uint64_t given) {
  return given == 0 ? 0 : std::clamp(given, kLeastChunk, kMostChunk) / kChunkStep * kChunkStep;
}

bool all_cached(std::span<const ReadRequest> requests, const Readers& readers) {
  for (std::size_t i = 0; i < requests.size();) {
    const std::size_t source = requests[i].source;
    const std::uint64_t begin = requests[i].begin;
    std::uint64_t end = begin;
    for (; i < requests.size() && requests[i].source == source; ++i) {
      end = std::max(end, requests[i].begin + requests[i].bytes);
    }
    const bool cached = readers[source]->is_cached(begin, end);
    readers[source]->close_idle();  // a thousand shards may be asked before the first is read
    if (!cached) return false;
  }
  return true;
}

unsigned count_threads(std::span<const ReadRequest> requests, const Readers& readers, const ReadOptions& options) {
  if (options.threads != 0) return std::min(options.threads, kMostThreads);
  std::uint64_t bytes = 0;  // of the first requests: more would not change the result, and the sum could overflow
  for (std::size_t i = 0; i < requests.size() && bytes < kWaiters * kBytesPerThread; ++i) {
    bytes += std::min(requests[i].bytes, kWaiters * kBytesPerThread);
  }
  const std::uint64_t worth = bytes / kBytesPerThread + 1;
  if (worth == 1) return 1;
  const unsigned useful = all_cached(requests, readers) ? std::min(hardware_threads(), kMostCopiers) : kWaiters;
  return static_cast<unsigned>(std::min<std::uint64_t>(worth, useful));
}

// The entry whose bytes lie at the offset at which a read failed.
std::size_t entry_at(const Piece& piece, std::uint64_t offset) {
  if (piece.ranges.empty()) return piece.request->entry;
  const auto behind = std::find_if(piece.ranges.begin(), piece.ranges.end(),
                                   [offset](const ReadRequest& range) { return range.begin + range.bytes > offset; });
  return behind == piece.ranges.end() ? piece.ranges.front().entry : behind->entry;
}

// One thread that reads batches until there are no more.
class Worker {
 public:
  Worker(PieceQueue& queue, BulkReader& owner, bool reports)
      : queue_(queue), owner_(owner), reports_(reports), transfer_(owner) {}

  void work() {
    while (!owner_.stopped() && queue_.next(piece_)) {
      const Clock::time_point begin = Clock::now();
      carry_out();
      if (Clock::now() - begin > kPromptly) queue_.slow_down();
      if (reports_) owner_.report();
    }
  }

 private:
  void carry_out() {
    try {
      transfer_.carry_out(piece_);
    } catch (Error& error) {
      owner_.stop();
      const Tensor& tensor = owner_.tensor(entry_at(piece_, error.offset));
      error.message = fmt::format("tensor {}: {}", in_quotes(tensor.name()), error.message);
      throw;
    } catch (...) {
      owner_.stop();
      throw;
    }
  }

  PieceQueue& queue_;
  BulkReader& owner_;
  const bool reports_;
  Transfer transfer_;
  Piece piece_;
};

}  // namespace

void read_all(std::span<const ReadRequest> requests, const Readers& readers, const ReadOptions& options,
              BulkReader& owner) {
  if (requests.empty()) return;
  const unsigned threads = count_threads(requests, readers, options);
  PieceQueue queue(requests, readers, {threads, usable_chunk(options.chunk_bytes), options.gap_bytes});
  // One thread reports, so that the host's callback is never called from two threads at once.
  parallel_for(threads, threads, options.pool, [&](std::size_t i) { Worker(queue, owner, i == 0).work(); });
}

}  // namespace st::core
