// Many reads as one pass over the files: what is wanted and where it goes, and how far it has come.
//
// docs/engine.md draws how it is read.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/bulk_read.hpp"
#include "core/file.hpp"
#include "format/slice.hpp"

namespace st::core {

class Plan {
 public:
  explicit Plan(const File& file);
  Plan(Plan&&) = delete;

  // Null arrays are open slices, as in format::slice(). The destination gets exactly the slice's bytes.
  void add(const Tensor& tensor, const std::int64_t* begin, const std::int64_t* end, const std::int64_t* step,
           void* dst, std::uint64_t dst_bytes);

  // Throws the first error; Status::cancelled when it was told to stop. May be called again, and reads all again.
  void run(const ReadOptions& options);

  // These from any thread, also while run() works.
  std::uint64_t done() const { return done_.load(std::memory_order_relaxed); }
  std::uint64_t total() const { return total_.load(std::memory_order_relaxed); }
  void cancel() const { cancelled_.store(true, std::memory_order_relaxed); }
  bool complete(std::size_t entry) const;  // all of its bytes have arrived in the last run

 private:
  class Reading;

  struct Entry {
    const Tensor* tensor = nullptr;
    std::byte* dst = nullptr;
    std::uint64_t begin = 0;  // relative to the tensor
    std::uint64_t bytes = 0;
    std::unique_ptr<format::Slice> strided;  // null: all bytes from `begin` on
    std::atomic<std::uint64_t> left{0};      // of the last run

    Entry() = default;
    Entry(Entry&& other) noexcept;
  };

  const std::unique_ptr<const File, Release> file_;
  std::vector<Entry> entries_;
  mutable std::atomic<bool> cancelled_{false};
  std::atomic<std::uint64_t> done_{0};
  std::atomic<std::uint64_t> total_{0};
};

// One slice, as a plan would read it, on the calling thread alone.
void read_slice(const Tensor& tensor, const format::Slice& slice, void* dst, std::uint64_t dst_bytes);

// A slice's bytes, or nullptr when they must be read or do not lie side by side. Any thread.
const std::byte* view(const Tensor& tensor, const format::Slice& slice);

}  // namespace st::core
