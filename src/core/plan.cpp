// SPDX-License-Identifier: Apache-2.0
#include "core/plan.hpp"

#include <algorithm>
#include <chrono>
#include <new>
#include <utility>
#include <vector>

#include "base/checked.hpp"
#include "base/error.hpp"
#include "core/device.hpp"
#include "core/read_request.hpp"

namespace st::core {

namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kBetweenReports = std::chrono::milliseconds(10);

bool belongs_to(const Tensor& tensor, const Checkpoint& file) {
  return shard_of(tensor).number < file.count_shards() && &file.shard(shard_of(tensor).number) == tensor.owner;
}

// To read the slice; null: `bytes` bytes from `begin` on, which is relative to the tensor.
ReadRequest request_for(const Tensor& tensor, std::uint64_t begin, std::uint64_t bytes, const format::Slice* slice,
                        void* dst) {
  const Shard& shard = shard_of(tensor);
  const std::uint64_t range = slice == nullptr ? bytes : format::extent(*slice);
  return {shard.number, shard.offset_of(tensor) + begin, range, static_cast<std::byte*>(dst), 0, slice, nullptr,
          nullptr};
}

}  // namespace

Plan::Plan(const Checkpoint& file) : file_(&file) { file.retain(); }

void Plan::add(const Tensor& tensor, const std::int64_t* begin, const std::int64_t* end, const std::int64_t* step,
               void* dst, std::uint64_t dst_bytes, const std::shared_ptr<Device>& device, void* stream) {
  if (!belongs_to(tensor, *file_))
    fail(Status::argument, "tensor {} does not belong to the plan's file", in_quotes(tensor.name()));
  std::uint64_t first = 0;
  std::uint64_t bytes = tensor.bytes();
  std::unique_ptr<format::Slice> strided;
  if (begin != nullptr || end != nullptr || step != nullptr) {
    format::Slice slice = format::slice(tensor, begin, end, step);
    first = slice.src_begin;
    bytes = slice.bytes;
    if (!slice.contiguous() && bytes != 0) strided = std::make_unique<format::Slice>(std::move(slice));
  }
  check_destination(tensor, bytes, dst, dst_bytes);
  std::uint64_t sum = 0;
  if (!checked_add(total(), bytes, sum)) fail(Status::overflow, "the plan would read more than 2^64-1 bytes");
  streams_.reserve(streams_.size() + 2);  // allocates first: everything is added, or nothing
  entries_.emplace_back(tensor, first, bytes, dst, device.get(), std::move(strided));
  if (device != nullptr) keep({device, stream, &tensor});
  total_.store(sum, std::memory_order_relaxed);
}

void Plan::keep(const Stream& wanted) {
  for (void* const needed : {static_cast<void*>(nullptr), wanted.stream}) {
    const bool kept = std::any_of(streams_.begin(), streams_.end(), [&](const Stream& known) {
      return known.device == wanted.device && known.stream == needed;
    });
    if (!kept) streams_.push_back({wanted.device, needed, wanted.tensor});
  }
}

// Called before the copies of a run begin.
void Plan::prepare(const Stream& one) {
  if (one.stream == nullptr) return one.device->retry_slots();
  try {
    one.device->after(one.stream);
  } catch (Error& error) {
    error.message = formatted("tensor {}: {}", in_quotes(one.tensor->name()), error.message);
    throw;
  }
}

// The functions that count what one run reads, report its progress and stop it.
ReadListener Plan::listener(const ReadOptions& options, std::atomic<bool>& failed) {
  ReadListener listener;
  listener.arrived = [this, &options](std::size_t entry, std::uint64_t bytes) {
    // Acquires the bytes that other threads have read of this entry, before ready().
    const std::uint64_t left = entries_[entry].left.fetch_sub(bytes, std::memory_order_acq_rel);
    done_.fetch_add(bytes, std::memory_order_relaxed);
    if (left == bytes && options.ready != nullptr) options.ready(options.ctx, entry);
  };
  listener.stopped = [this, &failed] {
    return failed.load(std::memory_order_relaxed) || cancelled_.load(std::memory_order_relaxed);
  };
  listener.stop = [&failed] { failed.store(true, std::memory_order_relaxed); };
  if (options.progress != nullptr) {
    listener.report = [this, &options, reported = Clock::time_point()]() mutable {
      const Clock::time_point now = Clock::now();
      if (now - reported < kBetweenReports) return;
      reported = now;
      if (options.progress(options.ctx, done(), total()) != 0) cancel();
    };
  }
  listener.count = [this](const ReadCounts& counts) {
    counts_.bytes_read += counts.bytes_read;
    counts_.reads += counts.reads;
    counts_.bytes_copied += counts.bytes_copied;
    counts_.copies += counts.copies;
    counts_.bytes_sent += counts.bytes_sent;
    counts_.bytes_received += counts.bytes_received;
    counts_.exchange_bytes += counts.exchange_bytes;
  };
  listener.name_of = [this](std::size_t entry) { return entries_[entry].tensor->name(); };
  return listener;
}

// Called at the beginning of a run: also prepares the devices. The requests are sorted.
std::vector<ReadRequest> Plan::make_requests(const ReadOptions& options) {
  std::vector<ReadRequest> requests;
  requests.reserve(entries_.size());
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const Entry& entry = entries_[i];
    if (entry.bytes != 0) {
      requests.push_back(request_for(*entry.tensor, entry.begin, entry.bytes, entry.strided.get(), entry.dst));
      requests.back().entry = i;
      requests.back().device = entry.device;
    } else if (options.ready != nullptr) {
      options.ready(options.ctx, i);
    }
  }
  sort_by_position(requests);
  for (const Stream& one : streams_) prepare(one);
  return requests;
}

void Plan::run(const ReadOptions& options, const Group& group) {
  struct EndOfRun {
    Plan& plan;
    ~EndOfRun() {
      // A cancel ends this run or, if none is running, the next one. It never ends two.
      plan.cancelled_.store(false, std::memory_order_relaxed);
      for (const Stream& one : plan.streams_) {
        if (one.stream == nullptr) plan.staging_bytes_ += one.device->staging_bytes();
      }
    }
  } const end_of_run{*this};

  done_.store(0, std::memory_order_relaxed);
  counts_ = {};
  staging_bytes_ = 0;
  // Reset all entries first: if this run fails, complete() must not report an earlier run's result.
  for (Entry& entry : entries_) entry.left.store(entry.bytes, std::memory_order_relaxed);
  std::atomic<bool> failed{false};
  ReadListener listening;
  try {
    listening = listener(options, failed);
  } catch (const std::bad_alloc&) {
    leave_group(group, Status::no_memory);
    throw;
  }
  if (group.size > 1) {
    read_in_group(group, *file_, options, listening, [&] { return make_requests(options); });
  } else {
    std::vector<ReadRequest> requests = make_requests(options);
    read_shards(requests, *file_, options, listening);
  }
  if (done() == total()) {
    if (options.progress != nullptr) options.progress(options.ctx, done(), total());
    return;
  }
  fail(Status::cancelled, "cancelled after {} of {} bytes", done(), total());
}

bool Plan::complete(std::size_t entry) const {
  return entry < entries_.size() && entries_[entry].left.load(std::memory_order_acquire) == 0;
}

#ifdef ST_MINIMAL
namespace {

// Reads a slice of the tensor at an offset without the plan engine: one window after another.
void gather_by_windows(const io::Source& source, std::uint64_t offset, const format::Slice& slice, std::byte* dst) {
  constexpr std::uint64_t kWindow = 1 << 20;
  constexpr std::uint64_t kGap = 4096;
  const std::uint64_t all = format::run_count(slice);
  const std::uint64_t together = format::runs_within_gap(slice, kGap);
  std::vector<std::byte> window;
  for (std::uint64_t first = 0, runs = 0; first < all; first += runs) {
    runs = format::runs_that_fit(slice, first, std::min(all - first, together - first % together), kWindow);
    const format::Run run = format::run_at(slice, first);
    if (runs == 1) {
      source.read_at(offset + run.src, dst + run.dst, static_cast<std::size_t>(slice.run_bytes));
      continue;
    }
    const std::uint64_t end = format::run_at(slice, first + runs - 1).src + slice.run_bytes;
    window.resize(static_cast<std::size_t>(end - run.src));
    source.read_at(offset + run.src, window.data(), window.size());
    format::gather(slice, first, runs, window.data(), dst);
  }
}

}  // namespace
#endif

void read_slice(const Tensor& tensor, const format::Slice& slice, void* dst, std::uint64_t dst_bytes) {
  check_destination(tensor, slice.bytes, dst, dst_bytes);
  if (slice.bytes == 0) return;
  const io::Source& source = *shard_of(tensor).source;
  if (slice.contiguous()) {
    source.read_at(shard_of(tensor).offset_of(tensor) + slice.src_begin, dst, static_cast<std::size_t>(slice.bytes));
    return;
  }
#ifdef ST_MINIMAL
  gather_by_windows(source, shard_of(tensor).offset_of(tensor), slice, static_cast<std::byte*>(dst));
#else
  ReadRequest request = request_for(tensor, slice.src_begin, slice.bytes, &slice, dst);
  request.source = 0;
  request.begin += source.traits().origin;
  Readers readers;
  readers.push_back(source.open_reader(io::Cache::automatic));
  ReadOptions alone;
  alone.threads = 1;
  ReadListener listener;
  listener.name_of = [&tensor](std::size_t) { return tensor.name(); };
  read_all({&request, 1}, readers, alone, listener);
#endif
}

const std::byte* view(const Tensor& tensor, const format::Slice& slice) {
  const std::byte* const whole = slice.contiguous() ? core::view(tensor) : nullptr;
  return whole == nullptr ? nullptr : whole + slice.src_begin;
}

}  // namespace st::core
