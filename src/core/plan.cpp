// SPDX-License-Identifier: Apache-2.0
#include "core/plan.hpp"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <utility>

#include "base/checked.hpp"
#include "base/error.hpp"
#include "core/shared_ranges.hpp"
#include "core/slot_pool.hpp"

namespace st::core {

namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kBetweenReports = std::chrono::milliseconds(10);

bool belongs_to(const Tensor& tensor, const Checkpoint& file) {
  return shard_of(tensor).number < file.count_shards() && &file.shard(shard_of(tensor).number) == tensor.owner;
}

bool is_serial(const Checkpoint& file) { return file.count_shards() != 0 && file.shard(0).source->traits().serial; }

std::uint64_t extent(const format::Slice& slice) {
  return format::run_at(slice, format::run_count(slice) - 1).src + slice.run_bytes - slice.src_begin;
}

// Most plans are made in the order of the file. For the others, pointers are moved less than requests are.
void sort_by_place(std::vector<ReadRequest>& requests) {
  const auto before = [](const ReadRequest& a, const ReadRequest& b) {
    return a.source != b.source ? a.source < b.source : a.begin < b.begin;
  };
  if (std::is_sorted(requests.begin(), requests.end(), before)) return;
  std::vector<const ReadRequest*> order;
  order.reserve(requests.size());
  for (const ReadRequest& request : requests) order.push_back(&request);
  std::sort(order.begin(), order.end(), [before](const auto* a, const auto* b) { return before(*a, *b); });
  std::vector<ReadRequest> sorted;
  sorted.reserve(requests.size());
  for (const ReadRequest* const request : order) sorted.push_back(*request);
  requests = std::move(sorted);
}

struct Sources {
  Readers readers;
  bool overlap = false;  // some requests without a slice want the same bytes
};

// Sorts the requests by source and offset. Returns a reader of each source that is read, numbers the requests' sources
// among these, and makes positions of the offsets.
Sources open_sources(std::vector<ReadRequest>& requests, const Checkpoint& checkpoint, io::Cache cache) {
  sort_by_place(requests);
  Sources sources;
  std::size_t shard = SIZE_MAX;
  std::uint64_t origin = 0;
  std::uint64_t end = 0;  // of the request without a slice before, in its source
  for (ReadRequest& request : requests) {
    if (request.source != shard) {
      shard = request.source;
      const io::Source& source = *checkpoint.shard(shard).source;
      sources.readers.push_back(source.open_reader(cache));
      origin = source.traits().origin;
      end = 0;
    }
    request.source = sources.readers.size() - 1;
    request.begin += origin;
    if (request.slice != nullptr) continue;
    if (request.begin < end) sources.overlap = true;
    end = request.begin + request.bytes;
  }
  return sources;
}

std::uint64_t offset_in_source(const Tensor& tensor, std::uint64_t begin) {
  return shard_of(tensor).offset_of(tensor) + begin;
}

// What read_all() needs to read one slice without a plan.
class SliceReading final : public BulkReadListener {
 public:
  explicit SliceReading(const Tensor& tensor) : tensor_(tensor) {}
  void arrived(std::size_t, std::uint64_t) override {}
  bool stopped() const override { return false; }
  void stop() override {}
  const Tensor& tensor(std::size_t) const override { return tensor_; }
  void report() override {}
  void count(const ReadCounts&) override {}

 private:
  const Tensor& tensor_;
};

}  // namespace

Plan::Entry::Entry(Entry&& other) noexcept
    : tensor(other.tensor),
      dst(other.dst),
      device(other.device),
      begin(other.begin),
      bytes(other.bytes),
      strided(std::move(other.strided)),
      left(other.left.load()) {}

Plan::Plan(const Checkpoint& file) : file_(&file) { file.retain(); }

void Plan::add(const Tensor& tensor, const std::int64_t* begin, const std::int64_t* end, const std::int64_t* step,
               void* dst, std::uint64_t dst_bytes, const std::shared_ptr<Device>& device, void* stream) {
  if (!belongs_to(tensor, *file_))
    fail(Status::argument, "tensor {} is not of the plan's file", in_quotes(tensor.name()));
  Entry entry;
  entry.tensor = &tensor;
  entry.dst = static_cast<std::byte*>(dst);
  entry.device = device.get();
  entry.bytes = tensor.bytes();
  if (begin != nullptr || end != nullptr || step != nullptr) {
    format::Slice slice = format::slice(tensor, begin, end, step);
    entry.begin = slice.src_begin;
    entry.bytes = slice.bytes;
    if (!slice.contiguous()) entry.strided = std::make_unique<format::Slice>(std::move(slice));
  }
  check_destination(tensor, entry.bytes, dst, dst_bytes);
  std::uint64_t sum = 0;
  if (!checked_add(total(), entry.bytes, sum)) fail(Status::overflow, "the plan's bytes do not fit 64 bits");
  entry.left.store(entry.bytes);
  streams_.reserve(streams_.size() + 2);  // what may need memory comes first: all of it is added, or nothing
  entries_.push_back(std::move(entry));
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

// Before copies of a run begin.
void Plan::prepare(const Stream& one) {
  if (one.stream == nullptr) return one.device->slots().try_again();
  try {
    one.device->after(one.stream);
  } catch (Error& error) {
    error.message = formatted("tensor {}: {}", in_quotes(one.tensor->name()), error.message);
    throw;
  }
}

// One run of a plan: counts the bytes that were read, reports progress, and says when to stop.
class Plan::Run final : public BulkReadListener {
 public:
  Run(Plan& plan, const ReadOptions& options) : plan_(plan), options_(options) {}

  void arrived(std::size_t entry, std::uint64_t bytes) override {
    // What other threads brought of the entry comes before ready().
    const std::uint64_t left = plan_.entries_[entry].left.fetch_sub(bytes, std::memory_order_acq_rel);
    plan_.done_.fetch_add(bytes, std::memory_order_relaxed);
    if (left == bytes && options_.ready != nullptr) options_.ready(options_.ctx, entry);
  }
  bool stopped() const override {
    return stopped_.load(std::memory_order_relaxed) || plan_.cancelled_.load(std::memory_order_relaxed);
  }
  void stop() override { stopped_.store(true, std::memory_order_relaxed); }
  const Tensor& tensor(std::size_t entry) const override { return *plan_.entries_[entry].tensor; }
  void count(const ReadCounts& counts) override {
    const std::lock_guard lock(mutex_);
    plan_.counts_.bytes_read += counts.bytes_read;
    plan_.counts_.reads += counts.reads;
    plan_.counts_.bytes_copied += counts.bytes_copied;
    plan_.counts_.copies += counts.copies;
  }
  void report() override {
    const Clock::time_point now = Clock::now();
    if (options_.progress == nullptr || now - reported_ < kBetweenReports) return;
    reported_ = now;
    if (options_.progress(options_.ctx, plan_.done(), plan_.total()) != 0) plan_.cancel();
  }

 private:
  Plan& plan_;
  const ReadOptions& options_;
  std::atomic<bool> stopped_{false};
  std::mutex mutex_;
  Clock::time_point reported_;
};

void Plan::run(const ReadOptions& options) {
  // A cancel ends the run that it meets, or else the next one, but never two runs.
  struct Listening {
    Plan& plan;
    ~Listening() {
      plan.cancelled_.store(false, std::memory_order_relaxed);
      for (const Stream& one : plan.streams_) {
        if (one.stream == nullptr) plan.staging_bytes_ += one.device->slots().bytes();
      }
    }
  } const listening{*this};

  done_.store(0, std::memory_order_relaxed);
  counts_ = {};
  staging_bytes_ = 0;
  // First of all, so that no failure leaves an entry complete that only an earlier run has read.
  for (Entry& entry : entries_) entry.left.store(entry.bytes, std::memory_order_relaxed);
  std::vector<ReadRequest> requests;
  requests.reserve(entries_.size());
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const Entry& entry = entries_[i];
    if (entry.bytes == 0) {
      if (options.ready != nullptr) options.ready(options.ctx, i);
      continue;
    }
    const format::Slice* const slice = entry.strided.get();
    requests.push_back({shard_of(*entry.tensor).number, offset_in_source(*entry.tensor, entry.begin),
                        slice == nullptr ? entry.bytes : extent(*slice), entry.dst, i, slice, entry.device, nullptr});
  }
  const Sources sources = open_sources(requests, *file_, options.cache);
  const OtherDestinations others = sources.overlap ? share_ranges(requests) : OtherDestinations();
  for (const Stream& one : streams_) prepare(one);
  Run reading(*this, options);
  ReadOptions chosen = options;
  if (options.threads == 0 && is_serial(*file_)) chosen.threads = 1;
  read_all(requests, sources.readers, chosen, reading);
  if (done() == total()) {
    if (options.progress != nullptr) options.progress(options.ctx, done(), total());
    return;
  }
  fail(Status::cancelled, "cancelled after {} of {} bytes", done(), total());
}

bool Plan::complete(std::size_t entry) const {
  return entry < entries_.size() && entries_[entry].left.load(std::memory_order_acquire) == 0;
}

void read_slice(const Tensor& tensor, const format::Slice& slice, void* dst, std::uint64_t dst_bytes) {
  check_destination(tensor, slice.bytes, dst, dst_bytes);
  if (slice.bytes == 0) return;
  const io::Source& source = *shard_of(tensor).source;
  if (slice.contiguous()) {
    source.read_at(shard_of(tensor).offset_of(tensor) + slice.src_begin, dst, static_cast<std::size_t>(slice.bytes));
    return;
  }
  const std::uint64_t position = source.traits().origin + offset_in_source(tensor, slice.src_begin);
  const ReadRequest request{0, position, extent(slice), static_cast<std::byte*>(dst), 0, &slice, nullptr, nullptr};
  Readers readers;
  readers.push_back(source.open_reader(io::Cache::automatic));
  ReadOptions alone;
  alone.threads = 1;
  SliceReading reading(tensor);
  read_all({&request, 1}, readers, alone, reading);
}

const std::byte* view(const Tensor& tensor, const format::Slice& slice) {
  const std::byte* const whole = slice.contiguous() ? core::view(tensor) : nullptr;
  return whole == nullptr ? nullptr : whole + slice.src_begin;
}

}  // namespace st::core
