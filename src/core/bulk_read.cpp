// SPDX-License-Identifier: Apache-2.0
#include "core/bulk_read.hpp"

#include <algorithm>
#include <chrono>
#include <optional>

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
std::size_t entry_at(const ReadBatch& batch, std::uint64_t offset) {
  if (batch.ranges.empty()) return batch.request->entry;
  const auto behind = std::find_if(batch.ranges.begin(), batch.ranges.end(),
                                   [offset](const ReadRequest& range) { return range.begin + range.bytes > offset; });
  return behind == batch.ranges.end() ? batch.ranges.front().entry : behind->entry;
}

// One thread that reads batches until there are no more.
class Worker {
 public:
  Worker(ReadScheduler& scheduler, BulkReadListener& listener, bool reports)
      : scheduler_(scheduler), listener_(listener), reports_(reports), executor_(listener) {}
  Worker(const Worker&) = delete;
  ~Worker() { listener_.count(executor_.counts()); }

  void work() {
    try {
      while (!listener_.stopped() && next_batch()) {
        const Clock::time_point begin = Clock::now();
        const std::uint64_t copies = executor_.counts().copies;
        executor_.execute(batch_);
        // Where bytes go to a device, the time may have gone into waiting for its slots, between which stopped() is asked.
        const bool for_device = executor_.counts().copies != copies;
        if (!for_device && Clock::now() - begin > kPromptly) scheduler_.slow_down();
        if (reports_) listener_.report();
      }
      executor_.finish();
    } catch (Error& error) {
      listener_.stop();
      name_tensor(error);
      throw;
    } catch (...) {
      listener_.stop();
      throw;
    }
  }

 private:
  bool next_batch() {
    in_batch_ = false;
    in_batch_ = scheduler_.next(batch_);
    return in_batch_;
  }

  // Of the tensor whose bytes a device did not get, or else of that at which a read failed.
  void name_tensor(Error& error) const {
    std::optional<std::size_t> entry = executor_.undelivered_entry();
    if (!entry && in_batch_) entry = entry_at(batch_, error.offset);
    if (!entry) return;
    error.message = formatted("tensor {}: {}", in_quotes(listener_.tensor(*entry).name()), error.message);
  }

  ReadScheduler& scheduler_;
  BulkReadListener& listener_;
  const bool reports_;
  ReadExecutor executor_;
  ReadBatch batch_;
  bool in_batch_ = false;  // or between two
};

}  // namespace

void read_all(std::span<const ReadRequest> requests, const Readers& readers, const ReadOptions& options,
              BulkReadListener& listener) {
  if (requests.empty()) return;
  const unsigned threads = count_threads(requests, readers, options);
  ReadScheduler scheduler(requests, readers, {threads, usable_chunk(options.chunk_bytes), options.gap_bytes});
  const HostPool pool = options.threads == 1 ? HostPool{} : options.pool;  // 1 is the calling thread, not one of many
  // One thread reports, so that the host's callback is never called from two threads at once.
  parallel_for(threads, threads, pool, [&](std::size_t i) { Worker(scheduler, listener, i == 0).work(); });
}

}  // namespace st::core
