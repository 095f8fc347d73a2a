// A plan: tensors and slices with their destinations, read in one pass over the files.
//
// docs/engine.md describes how a plan is read.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/bulk_read.hpp"
#include "core/checkpoint.hpp"
#include "core/group_read.hpp"
#include "format/slice.hpp"

namespace st::core {

class Plan {
 public:
  explicit Plan(const Checkpoint& file);
  Plan(Plan&&) = delete;

  // Null arrays are defaults, as in format::slice(). dst_bytes must be exactly the bytes of the slice. With a device, dst is
  // an address in its memory. With a stream, each run waits for the work that was submitted to the stream before.
  void add(const Tensor& tensor, const std::int64_t* begin, const std::int64_t* end, const std::int64_t* step,
           void* dst, std::uint64_t dst_bytes, const std::shared_ptr<Device>& device = nullptr, void* stream = nullptr);

  // Throws the first error, and Status::cancelled after a cancel. Each call reads everything. With a group, the plans of
  // its processes run together: see read_in_group().
  void run(const ReadOptions& options, const Group& group = {});

  // These may be called from any thread while run() works.
  std::uint64_t done() const { return done_.load(std::memory_order_relaxed); }
  std::uint64_t total() const { return total_.load(std::memory_order_relaxed); }
  void cancel() const { cancelled_.store(true, std::memory_order_relaxed); }
  bool complete(std::size_t entry) const;  // the last run has read all of its bytes

  // Of the last run. Do not call this while run() works.
  const ReadCounts& counts() const { return counts_; }
  std::uint64_t staging_bytes() const { return staging_bytes_; }  // of its devices, at the end

 private:
  struct Entry {
    const Tensor* tensor;
    std::uint64_t begin;  // relative to the tensor
    std::uint64_t bytes;  // bytes that arrive; for a slice, fewer than the range that is read
    std::byte* dst;
    Device* device;
    std::unique_ptr<format::Slice> strided;  // null: the whole range
    std::atomic<std::uint64_t> left;         // bytes that the last run has not read

    Entry(const Tensor& of, std::uint64_t first, std::uint64_t size, void* to, Device* on,
          std::unique_ptr<format::Slice> slice)
        : tensor(&of),
          begin(first),
          bytes(size),
          dst(static_cast<std::byte*>(to)),
          device(on),
          strided(std::move(slice)),
          left(size) {}
    Entry(Entry&& other) noexcept
        : Entry(*other.tensor, other.begin, other.bytes, other.dst, other.device, std::move(other.strided)) {
      left = other.left.load(std::memory_order_relaxed);
    }
  };

  struct Stream {
    std::shared_ptr<Device> device;
    void* stream = nullptr;          // null: the device itself
    const Tensor* tensor = nullptr;  // the first that was added with it
  };

  void keep(const Stream& wanted);
  static void prepare(const Stream& one);
  std::vector<ReadRequest> make_requests(const ReadOptions& options);
  ReadListener listener(const ReadOptions& options, std::atomic<bool>& failed);

  const std::unique_ptr<const Checkpoint, Release> file_;
  std::vector<Entry> entries_;
  std::vector<Stream> streams_;  // each stream once, and each device once without one
  ReadCounts counts_;
  std::uint64_t staging_bytes_ = 0;
  mutable std::atomic<bool> cancelled_{false};
  std::atomic<std::uint64_t> done_{0};
  std::atomic<std::uint64_t> total_{0};
};

// Reads one slice as a plan would, on the calling thread only.
void read_slice(const Tensor& tensor, const format::Slice& slice, void* dst, std::uint64_t dst_bytes);

// Returns a slice's bytes in the file's view; nullptr if there is no view or the slice has gaps. Any thread.
const std::byte* view(const Tensor& tensor, const format::Slice& slice);

}  // namespace st::core
