// Reads batches with as few system calls as possible, and delivers their bytes to the host or to devices.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/device.hpp"
#include "core/read_listener.hpp"
#include "core/read_scheduler.hpp"

namespace st::core {

// Reads the batches of one thread. Keeps its memory from one batch to the next.
class ReadExecutor {
 public:
  explicit ReadExecutor(const ReadListener& listener) : listener_(listener), staging_(listener) {}

  void execute(const ReadBatch& batch);

  // Waits until devices have all bytes. Call this after the last batch.
  void finish() { staging_.finish(); }

  // After an exception: an entry that a device did not get.
  std::optional<std::size_t> undelivered_entry() const { return staging_.undelivered_entry(); }

  const ReadCounts& counts() const { return counts_; }

 private:
  struct Scratch {
    std::unique_ptr<std::byte[], void (*)(std::byte*)> pages{nullptr, nullptr};
    std::uint64_t bytes = 0;
  };

  using Ranges = std::span<const ReadRequest>;

  static std::uint64_t alignment_of(const io::SourceReader& reader, io::ReadPath path);
  void deliver(io::SourceReader& reader, io::ReadPath path, Ranges ranges);
  void read_ranges(io::SourceReader& reader, io::ReadPath path, Ranges ranges);
  bool try_ranges(io::SourceReader& reader, io::ReadPath path, Ranges ranges);
  void add_range(const ReadRequest& range, std::uint64_t alignment);
  void fill_up_to(std::uint64_t end);
  static const std::byte* in_memory(const ReadBatch& batch, std::uint64_t position);
  void copy_runs(const ReadBatch& batch);
  void read_runs(const ReadBatch& batch);
  bool read_many(io::SourceReader& reader, io::ReadPath path, std::span<const io::Read> reads,
                 std::uint64_t needed_end);
  void read_blocks(io::SourceReader& reader, io::ReadPath path, std::uint64_t begin, std::uint64_t end,
                   std::byte* memory);
  const std::byte* read_window(io::SourceReader& reader, io::ReadPath path, std::uint64_t begin, std::uint64_t bytes);
  void stage_ranges(io::SourceReader& reader, io::ReadPath path, Ranges ranges);
  void stage_runs(const ReadBatch& batch);
  void stage_window(const ReadBatch& batch, std::uint64_t first, std::uint64_t runs, std::byte* to);
  void read_shared(io::SourceReader& reader, io::ReadPath path, Ranges ranges);
  void stage_shared(Device& device, Ranges ranges, const std::byte* window, std::uint64_t begin);
  std::byte* memory_for(Device& device, const io::SourceReader& reader);
  bool move_to_slot(Device& device);
  void begin_copies(Device& device, const std::byte* memory);
  void add_device_copy(std::size_t entry, const DeviceCopy& copy);
  static std::byte* scratch(Scratch& memory, std::uint64_t bytes);

  const ReadListener& listener_;
  Staging staging_;
  std::vector<DeviceCopy> device_copies_;
  std::size_t copied_entry_ = 0;  // of the last device copy
  std::vector<Arrival> arrivals_;
  std::vector<Device*> devices_;
  ReadCounts counts_;
  Scratch scratch_;
  Scratch instead_of_slot_;

  // The read in preparation covers the source from window_ to cursor_.
  std::uint64_t window_ = 0;
  std::uint64_t cursor_ = 0;
  std::byte* bounce_ = nullptr;
  std::vector<io::Read> reads_;
  std::vector<io::Read> copies_;  // what is read to scratch memory, and copied from there
  std::vector<ReadRequest> merged_;
  std::vector<ReadRequest> one_;
};

}  // namespace st::core
