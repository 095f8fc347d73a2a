// A plan: a list of tensors and slices with their destinations, which are read in one pass over the files.
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
#include "format/slice.hpp"

namespace st::core {

class Plan {
 public:
  explicit Plan(const Checkpoint& file);
  Plan(Plan&&) = delete;

  // Null arrays are left out, as in format::slice(). dst_bytes must be exactly the bytes of the slice. If `device` is not
  // null, dst is an address in its memory, and is written to after the work that `stream`, unless that is null, has been
  // given when the plan is run.
  void add(const Tensor& tensor, const std::int64_t* begin, const std::int64_t* end, const std::int64_t* step,
           void* dst, std::uint64_t dst_bytes, const std::shared_ptr<Device>& device = nullptr, void* stream = nullptr);

  // Throws the first error, and Status::cancelled after a cancel. Each call reads everything.
  void run(const ReadOptions& options);

  // These may be called from any thread while run() works.
  std::uint64_t done() const { return done_.load(std::memory_order_relaxed); }
  std::uint64_t total() const { return total_.load(std::memory_order_relaxed); }
  void cancel() const { cancelled_.store(true, std::memory_order_relaxed); }
  bool complete(std::size_t entry) const;  // all of its bytes were read in the last run

  // Of the last run. Not while run() works.
  const ReadCounts& counts() const { return counts_; }
  std::uint64_t staging_bytes() const { return staging_bytes_; }  // that its devices had in the end

 private:
  class Run;

  struct Entry {
    const Tensor* tensor = nullptr;
    std::byte* dst = nullptr;
    Device* device = nullptr;
    std::uint64_t begin = 0;  // relative to the tensor
    std::uint64_t bytes = 0;
    std::unique_ptr<format::Slice> strided;  // null: `bytes` contiguous bytes from `begin` on
    std::atomic<std::uint64_t> left{0};      // bytes that the last run has not read

    Entry() = default;
    Entry(Entry&& other) noexcept;
  };

  struct Stream {
    std::shared_ptr<Device> device;
    void* stream = nullptr;          // null stands for the device alone
    const Tensor* tensor = nullptr;  // the first that asked for it
  };

  void keep(const Stream& wanted);
  static void prepare(const Stream& one);

  const std::unique_ptr<const Checkpoint, Release> file_;
  std::vector<Entry> entries_;
  std::vector<Stream> streams_;  // each once, and each device once without a stream
  ReadCounts counts_;
  std::uint64_t staging_bytes_ = 0;
  mutable std::atomic<bool> cancelled_{false};
  std::atomic<std::uint64_t> done_{0};
  std::atomic<std::uint64_t> total_{0};
};

// One slice, as a plan would read it, on the calling thread alone.
void read_slice(const Tensor& tensor, const format::Slice& slice, void* dst, std::uint64_t dst_bytes);

// A slice's bytes, or nullptr when they must be read or do not lie side by side. Any thread.
const std::byte* view(const Tensor& tensor, const format::Slice& slice);

}  // namespace st::core
