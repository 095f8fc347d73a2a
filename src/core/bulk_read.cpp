// SPDX-License-Identifier: Apache-2.0
#include "core/bulk_read.hpp"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <optional>

#include "base/error.hpp"
#include "core/device.hpp"
#include "core/read_executor.hpp"

namespace st::core {

namespace {

using Clock = std::chrono::steady_clock;

constexpr unsigned kWaiters = 16;        // threads that read from disks and networks, and sleep most of the time
constexpr unsigned kMostCopiers = 16;    // threads that copy cached bytes: enough to saturate any machine's memory
constexpr unsigned kMostThreads = 1024;  // maximum that the caller may request
constexpr std::uint64_t kBytesPerThread = std::uint64_t{512} << 10;  // for fewer bytes, starting a thread takes longer
constexpr std::uint64_t kBytesPerDeviceThread = std::uint64_t{2} << 20;  // the same for cached bytes and an H200
constexpr auto kPromptly = std::chrono::milliseconds(20);  // longest time for which a read may delay a cancel

bool all_cached(std::span<const ReadRequest> requests, const Readers& readers) {
  for (std::size_t i = 0; i < requests.size();) {
    const std::size_t source = requests[i].source;
    const std::uint64_t begin = requests[i].begin;
    std::uint64_t end = begin;
    for (; i < requests.size() && requests[i].source == source; ++i) {
      end = std::max(end, end_of(requests[i]));
    }
    const bool cached = readers[source]->is_cached(begin, end);
    readers[source]->close_idle();  // there may be a thousand shards
    if (!cached) return false;
  }
  return true;
}

// Returns the number of threads that copy cached bytes to a device or, if it is nullptr, to memory. A device serves two
// slots per thread. More threads wait for one another: with 16 slots, 16 threads loaded 43 GB/s to an H200, 8 threads 49.
std::uint64_t count_copiers(const Device* device, std::uint64_t bytes) {
  const std::uint64_t most = std::min(hardware_threads(), kMostCopiers);
  if (device == nullptr) return most;
  const std::uint64_t served = std::max<std::uint64_t>(device->slots() / Staging::kSlotsOfThread, 1);
  return std::min({most, served, bytes / kBytesPerDeviceThread + 1});
}

unsigned count_threads(std::span<const ReadRequest> requests, const Readers& readers, const ReadOptions& options) {
  if (options.threads != 0) return std::min(options.threads, kMostThreads);
  std::uint64_t bytes = 0;  // of the first requests; more would not change the result, and the sum could overflow
  for (std::size_t i = 0; i < requests.size() && bytes < kMostThreads * kBytesPerThread; ++i) {
    bytes += std::min(requests[i].bytes, kMostThreads * kBytesPerThread);
  }
  const std::uint64_t worth = bytes / kBytesPerThread + 1;
  // Sources that state their parallelism have slow requests, and a thread for each is worth its start.
  unsigned stated = 0;
  for (const auto& reader : readers) stated = std::max(stated, reader->source().traits().parallel);
  if (stated != 0) {
    std::uint64_t waits = 0;
    for (std::size_t i = 0; i < requests.size() && waits < stated; ++i) {
      waits += requests[i].slice == nullptr ? 1 : format::run_count(*requests[i].slice);
    }
    return static_cast<unsigned>(std::min<std::uint64_t>(std::max(worth, waits), std::min(stated, kMostThreads)));
  }
  if (worth == 1) return 1;
  const std::uint64_t useful = all_cached(requests, readers) ? count_copiers(requests.front().device, bytes) : kWaiters;
  return static_cast<unsigned>(std::min<std::uint64_t>(worth, useful));
}

bool any_is_serial(const Readers& readers) {
  return std::any_of(readers.begin(), readers.end(),
                     [](const auto& reader) { return reader->source().traits().serial; });
}

// Opens a reader for each source of the sorted requests, and converts the requests for the scheduler: shards to indices
// into the readers, offsets to positions.
Readers open_readers(std::vector<ReadRequest>& requests, const Checkpoint& checkpoint, io::Cache cache) {
  Readers readers;
  std::size_t shard = SIZE_MAX;
  std::uint64_t origin = 0;
  for (ReadRequest& request : requests) {
    if (request.source != shard) {
      shard = request.source;
      const io::Source& source = *checkpoint.shard(shard).source;
      readers.push_back(source.open_reader(cache));
      origin = source.traits().origin;
    }
    request.source = readers.size() - 1;
    request.begin += origin;
  }
  return readers;
}

// Returns the entry at the offset where a read failed.
std::size_t entry_at(const ReadBatch& batch, std::uint64_t offset) {
  if (batch.ranges.empty()) return batch.request->entry;
  const auto found = std::find_if(batch.ranges.begin(), batch.ranges.end(),
                                  [offset](const ReadRequest& range) { return end_of(range) > offset; });
  return found == batch.ranges.end() ? batch.ranges.front().entry : found->entry;
}

// State shared by the threads of one read.
struct Reading {
  ReadScheduler scheduler;
  const ReadListener& listener;
  std::mutex counting;
};

// One thread that reads batches until none is left.
class Worker {
 public:
  Worker(Reading& reading, bool reports) : reading_(reading), reports_(reports), executor_(reading.listener) {}
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  ~Worker() {
    const std::lock_guard lock(reading_.counting);
    reading_.listener.count(executor_.counts());
  }

  void work() {
    try {
      while (!reading_.listener.stopped() && next_batch()) read_batch();
      executor_.finish();
    } catch (Error& error) {
      reading_.listener.stop();
      name_tensor(error);
      throw;
    } catch (...) {
      reading_.listener.stop();
      throw;
    }
  }

 private:
  bool next_batch() {
    in_batch_ = false;
    in_batch_ = reading_.scheduler.next(batch_);
    return in_batch_;
  }

  void read_batch() {
    const Clock::time_point begin = Clock::now();
    const std::uint64_t copies = executor_.counts().copies;
    executor_.execute(batch_);
    // Smaller batches notice a cancel sooner. A batch for a device may have waited for a slot, and that wait notices a
    // cancel.
    const bool for_device = executor_.counts().copies != copies;
    if (!for_device && Clock::now() - begin > kPromptly) reading_.scheduler.slow_down();
    if (reports_) reading_.listener.report();
  }

  // Names the tensor that a device did not get, or else the one at which a read failed.
  void name_tensor(Error& error) const {
    std::optional<std::size_t> entry = executor_.undelivered_entry();
    if (!entry && in_batch_) entry = entry_at(batch_, error.offset);
    if (!entry) return;
    error.message = formatted("tensor {}: {}", in_quotes(reading_.listener.name_of(*entry)), error.message);
  }

  Reading& reading_;
  const bool reports_;
  ReadExecutor executor_;
  ReadBatch batch_;
  bool in_batch_ = false;  // or between two
};

}  // namespace

void read_all(std::span<const ReadRequest> requests, const Readers& readers, const ReadOptions& options,
              const ReadListener& listener) {
  if (requests.empty()) return;
  const unsigned threads = count_threads(requests, readers, options);
  const BatchLimits limits{threads, usable_chunk(options.chunk_bytes), options.gap_bytes, options.most_gap};
  Reading reading{{requests, readers, limits}, listener, {}};
  const HostPool pool =
      options.threads == 1 ? HostPool{} : options.pool;  // 1 is the calling thread, not one of the pool
  // Only one thread reports, so two calls of the progress callback never overlap.
  parallel_for(threads, threads, pool, [&](std::size_t i) { Worker(reading, i == 0).work(); });
}

void read_shards(std::vector<ReadRequest>& requests, const Checkpoint& checkpoint, const ReadOptions& options,
                 const ReadListener& listener) {
  // Readers first: opening them adds the offset of each file to the requests, and split_overlaps() copies requests.
  const Readers readers = open_readers(requests, checkpoint, options.cache);
  const OtherDestinations others = split_overlaps(requests);
  ReadOptions chosen = options;
  if (options.threads == 0 && any_is_serial(readers)) chosen.threads = 1;
  read_all(requests, readers, chosen, listener);
}

}  // namespace st::core
