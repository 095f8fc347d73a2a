// SPDX-License-Identifier: Apache-2.0
#include "core/read_scheduler.hpp"

#include <algorithm>
#include <utility>

#include "core/device.hpp"

namespace st::core {

namespace {

constexpr std::uint64_t kKiB = 1024;
constexpr std::uint64_t kMiB = 1024 * kKiB;

constexpr std::uint64_t kDecisionBytes = 16 * kMiB;  // the page cache is queried once for this many bytes
constexpr std::uint64_t kInFlight = 32 * kMiB;       // direct reads of all threads together that keep a fast disk busy
constexpr std::uint64_t kLeastDirect = 1 * kMiB;
constexpr std::uint64_t kMostDirect = 16 * kMiB;
// Batches of cached bytes are whole huge pages, so two threads never share one. For a GPU, each batch costs a wait: on an
// H200 with 8 threads, 16 MiB took 1.7 ms in batches of 8 MiB, 0.95 ms with 2 MiB, and 1.1 ms with 512 KiB.
constexpr std::uint64_t kLeastCached = 2 * kMiB;
constexpr std::uint64_t kMostCached = 8 * kMiB;
constexpr std::uint64_t kBufferedBytes = 1 * kMiB;
// The window of cached runs fits a core's cache: half the columns of a cached matrix of 128 MiB took 24 ms with it, and
// 71 ms with windows of 8 MiB.
constexpr std::uint64_t kRunWindow = 256 * kKiB;
constexpr std::uint64_t kLeastRunBytes = 256 * kKiB;
constexpr std::uint64_t kLeastOfDevice = 1 * kMiB;  // of a slice, for the same reason as kLeastCached
constexpr std::uint64_t kMostRequests = 64;         // of short runs in a batch: a report or a cancel waits for them
constexpr std::uint64_t kBatchesOfThread = 4;       // lets the threads end at about the same time
constexpr std::uint64_t kLeastBatch = 128 * kKiB;
constexpr std::size_t kMostRanges = 400;  // bounds the memory of a batch; 4,000 were no faster

// A gap between two ranges is read with them if that takes no longer than another request. For cached bytes a request
// is a system call. For a disk it is a wait, and several threads wait at the same time until the disk is saturated:
// skipping was slower for gaps under 128 KiB with one thread, and under 16 KiB with eight or more.
constexpr std::uint64_t kCachedGap = 1 * kKiB;
constexpr unsigned kMostSharing = 8;

// Returns UINT64_MAX if the next multiple does not fit 64 bits: a source may be 2^64 - 1 bytes long.
std::uint64_t next_multiple(std::uint64_t at, std::uint64_t of) {
  const std::uint64_t before = at / of * of;
  return before > UINT64_MAX - of ? UINT64_MAX : before + of;
}

// Returns the size of a batch of cached bytes. Each thread gets several batches if there are enough bytes.
std::uint64_t cached_batch(std::span<const ReadRequest> requests, unsigned threads) {
  const std::uint64_t enough = threads * kBatchesOfThread * kMostCached;
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < requests.size() && total < enough; ++i) total += std::min(requests[i].bytes, enough);
  return std::clamp(total / threads / kBatchesOfThread / kLeastCached * kLeastCached, kLeastCached, kMostCached);
}

constexpr std::uint64_t kLeastChunk = 64 * kKiB;
constexpr std::uint64_t kMostChunk = 1024 * kMiB;
constexpr std::uint64_t kChunkStep = 4 * kKiB;  // keeps direct reads aligned from chunk to chunk

}  // namespace

std::uint64_t usable_chunk(std::uint64_t given) {
  return given == 0 ? 0 : std::clamp(given, kLeastChunk, kMostChunk) / kChunkStep * kChunkStep;
}

ReadScheduler::ReadScheduler(std::span<const ReadRequest> requests, const Readers& readers, const BatchLimits& limits)
    : requests_(requests),
      readers_(readers),
      limits_(limits),
      cached_bytes_(cached_batch(requests, limits.threads)),
      in_use_(readers.size()) {}

void ReadScheduler::slow_down() {
  const std::lock_guard lock(mutex_);
  most_ = std::max(kLeastBatch, std::min(most_, kMostDirect) / 2);
}

void ReadScheduler::enter_source(std::size_t source) {
  if (source == source_) return;
  const std::size_t left = std::exchange(source_, source);
  if (left != SIZE_MAX) close_descriptors(left);
  traits_ = readers_[source]->source().traits();
  block_end_ = 0;
  source_end_ = 0;
  for (std::size_t i = next_; i < requests_.size() && requests_[i].source == source; ++i) {
    source_end_ = std::max(source_end_, end_of(requests_[i]));
  }
}

void ReadScheduler::end_batch(ReadBatch& batch) {
  if (batch.request == nullptr) return;
  const std::size_t source = std::exchange(batch.request, nullptr)->source;
  --in_use_[source];
  if (source != source_) close_descriptors(source);
}

// Called for a source without further batches. Other threads may still be reading earlier ones.
void ReadScheduler::close_descriptors(std::size_t source) {
  if (in_use_[source] == 0) {
    readers_[source]->retire();
  } else {
    readers_[source]->close_idle();
  }
}

io::ReadPath ReadScheduler::path_at(std::uint64_t at) {
  if (at >= block_end_ || block_end_ - at > kDecisionBytes) {
    const std::uint64_t end = next_multiple(at, kDecisionBytes);
    path_ = readers_[source_]->path_for(at, std::min(end, source_end_));  // may throw
    block_end_ = end;
  }
  return path_;
}

std::uint64_t ReadScheduler::batch_bytes(io::ReadPath path) const {
  if (traits_.chunk_bytes != 0)
    return limits_.chunk_bytes != 0 ? limits_.chunk_bytes : usable_chunk(traits_.chunk_bytes);
  if (limits_.chunk_bytes != 0) return std::min(limits_.chunk_bytes, most_);
  const std::uint64_t direct = std::clamp(kInFlight / limits_.threads / kMiB * kMiB, kLeastDirect, kMostDirect);
  const std::uint64_t usual = path == io::ReadPath::direct   ? direct
                              : path == io::ReadPath::cached ? cached_bytes_
                                                             : kBufferedBytes;
  return std::min(usual, most_);
}

std::uint64_t ReadScheduler::gap_bytes(io::ReadPath path) const {
  const std::uint64_t usual =
      path == io::ReadPath::cached ? kCachedGap : traits_.request_cost / std::min(limits_.threads, kMostSharing);
  const std::uint64_t stated = limits_.gap_bytes != 0 ? limits_.gap_bytes : traits_.gap_bytes;
  return std::min(stated != 0 ? stated : usual, limits_.most_gap);
}

bool ReadScheduler::next(ReadBatch& batch) {
  const std::lock_guard lock(mutex_);
  end_batch(batch);
  if (next_ == requests_.size()) return false;
  const ReadRequest& request = requests_[next_];
  enter_source(request.source);
  const std::uint64_t from =
      request.slice == nullptr ? 0 : format::run_at(*request.slice, run_).src - request.slice->src_begin;
  batch.reader = readers_[source_].get();
  batch.path = path_at(request.begin + from + taken_);
  batch.gap = gap_bytes(batch.path);
  batch.memory = nullptr;
  batch.ranges.clear();
  batch.request = &request;
  ++in_use_[source_];
  const std::uint64_t room = batch_bytes(batch.path);
  if (request.slice == nullptr) {
    take_ranges(batch, room);
  } else if (request.slice->run_bytes > kMiB) {
    take_long_run(batch, room);
  } else {
    take_runs(batch, room);
  }
  return true;
}

// Takes requests up to the first gap that is too long, but not past the next multiple of `room`: the next batch of direct
// reads then begins aligned.
void ReadScheduler::take_ranges(ReadBatch& batch, std::uint64_t room) {
  const std::uint64_t limit = next_multiple(requests_[next_].begin + taken_, room);
  std::uint64_t end = requests_[next_].begin + taken_;
  const std::uint64_t gap = traits_.joins_reads ? batch.gap : 0;
  // A batch is read by one thread. A source that answers several requests at once gets one range per batch, so several
  // threads wait for it.
  const std::size_t most = !traits_.joins_reads && traits_.parallel > 1 ? 1 : kMostRanges;
  while (next_ < requests_.size() && batch.ranges.size() < most) {
    const ReadRequest& request = requests_[next_];
    const std::uint64_t begin = request.begin + taken_;
    const bool here = request.source == source_ && request.slice == nullptr && begin >= end && begin < limit;
    if (!here || begin - end > gap) break;
    const std::uint64_t bytes = std::min(request.bytes - taken_, limit - begin);
    batch.ranges.push_back(
        {source_, begin, bytes, request.dst + taken_, request.entry, nullptr, request.device, request.also});
    end = begin + bytes;
    taken_ += bytes;
    if (taken_ < request.bytes) break;
    taken_ = 0;
    ++next_;
  }
}

// Takes a part of one long run, or all of it.
void ReadScheduler::take_long_run(ReadBatch& batch, std::uint64_t room) {
  const ReadRequest& request = requests_[next_];
  const format::Run run = format::run_at(*request.slice, run_);
  const std::uint64_t begin = request.begin + (run.src - request.slice->src_begin) + taken_;
  const std::uint64_t bytes = std::min(request.slice->run_bytes - taken_, next_multiple(begin, room) - begin);
  batch.ranges.push_back(
      {source_, begin, bytes, request.dst + run.dst + taken_, request.entry, nullptr, request.device, nullptr});
  taken_ += bytes;
  if (taken_ < request.slice->run_bytes) return;
  taken_ = 0;
  if (++run_ < format::run_count(*request.slice)) return;
  run_ = 0;
  ++next_;
}

// Returns the minimum runs per batch. Each uncached run is a request, so the threads share them. A batch of cached runs for
// a device fills a slot, because each batch waits for the device once, but takes at most a quarter of this thread's share.
std::uint64_t ReadScheduler::least_runs(const format::Slice& slice, io::ReadPath path, const Device* device) const {
  if (path != io::ReadPath::cached) {
    const std::uint64_t share = format::run_count(slice) / limits_.threads / kBatchesOfThread;
    return std::clamp(share, std::uint64_t{1}, kMostRequests);
  }
  if (device == nullptr) return kLeastRunBytes / slice.run_bytes + 1;
  const std::uint64_t share = slice.bytes / limits_.threads / kBatchesOfThread;
  const std::uint64_t bytes = std::clamp<std::uint64_t>(share, kLeastOfDevice, device->slot_bytes());
  return std::max<std::uint64_t>(bytes / slice.run_bytes, 1);
}

void ReadScheduler::take_runs(ReadBatch& batch, std::uint64_t room) {
  const format::Slice& slice = *requests_[next_].slice;
  const std::uint64_t total = format::run_count(slice);
  if (batch.path == io::ReadPath::cached) batch.memory = batch.reader->memory();
  if (batch.memory != nullptr) {
    batch.gap = batch.room = UINT64_MAX;  // no unwanted bytes are read
  } else {
    batch.room =
        std::max(batch.path == io::ReadPath::cached ? std::min(room, kRunWindow) : room - room / 16, slice.run_bytes);
  }
  batch.first_run = run_;
  if (traits_.parallel != 0) {
    // The requests of such a source are slow. With one per batch, other threads make the next ones, and a cancel waits for
    // this one only.
    const std::uint64_t together = format::runs_within_gap(slice, batch.gap);
    batch.runs = format::runs_that_fit(slice, run_, together - run_ % together, batch.room);
  } else {
    // Enough runs to make taking a batch cheap in comparison, even if they are far apart.
    const std::uint64_t least = std::min(total - run_, least_runs(slice, batch.path, requests_[next_].device));
    batch.runs = std::max(least, format::runs_that_fit(slice, run_, total - run_, room));
  }
  run_ += batch.runs;
  if (run_ < total) return;
  run_ = 0;
  ++next_;
}

}  // namespace st::core
