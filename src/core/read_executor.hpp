// Reads one batch with as few system calls as possible.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/device.hpp"
#include "core/read_scheduler.hpp"
#include "core/staging.hpp"

namespace st::core {

// What was done to read, as st_plan_stats tells.
struct ReadCounts {
  std::uint64_t bytes_read = 0;
  std::uint64_t reads = 0;
  std::uint64_t bytes_copied = 0;  // to devices
  std::uint64_t copies = 0;
};

// Reads the batches of one thread, and delivers their bytes to the memory of the host or of a device. It keeps its
// memory from one batch to the next.
class ReadExecutor {
 public:
  explicit ReadExecutor(ReadListener& listener) : listener_(listener), staging_(listener) {}

  void execute(const ReadBatch& batch);

  // Waits until devices have all bytes of the batches. To be called after the last one.
  void finish() { staging_.finish(); }

  // After an exception: an entry whose bytes a device did not get.
  std::optional<std::size_t> undelivered_entry() const { return staging_.undelivered_entry(); }

  const ReadCounts& counts() const { return counts_; }

 private:
  struct Copy {
    std::uint64_t from = 0;  // a position
    std::uint64_t bytes = 0;
    std::byte* dst = nullptr;
  };

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
  void read_runs(const ReadBatch& batch);
  bool read_many(io::SourceReader& reader, io::ReadPath path, std::span<const io::Read> reads,
                 std::uint64_t needed_end);
  void read_blocks(io::SourceReader& reader, io::ReadPath path, std::uint64_t begin, std::uint64_t end,
                   std::byte* memory);
  const std::byte* read_window(io::SourceReader& reader, io::ReadPath path, std::uint64_t begin, std::uint64_t bytes);
  void stage_ranges(io::SourceReader& reader, io::ReadPath path, Ranges ranges);
  void stage_runs(const ReadBatch& batch);
  void stage_window(const ReadBatch& batch, std::uint64_t first, std::uint64_t runs, std::byte* to);
  void share_ranges(io::SourceReader& reader, io::ReadPath path, Ranges ranges);
  void stage_shared(Device& device, Ranges ranges, const std::byte* window, std::uint64_t begin);
  std::byte* memory_for(Device& device, const io::SourceReader& reader);
  bool move_to_slot(Device& device);
  void begin_copies(Device& device, const std::byte* memory);
  void add_device_copy(std::size_t entry, const DeviceCopy& copy);
  static std::byte* scratch(Scratch& memory, std::uint64_t bytes);

  ReadListener& listener_;
  Staging staging_;
  std::vector<DeviceCopy> device_copies_;
  std::size_t copied_entry_ = 0;  // of the last of them
  std::vector<Arrival> arrivals_;
  std::vector<Device*> devices_;
  ReadCounts counts_;
  Scratch scratch_;
  Scratch instead_of_slot_;

  // The read that is being prepared covers the file from window_ to cursor_.
  std::uint64_t window_ = 0;
  std::uint64_t cursor_ = 0;
  std::byte* bounce_ = nullptr;
  std::vector<io::Read> reads_;
  std::vector<Copy> copies_;
  std::vector<ReadRequest> joined_;
  std::vector<ReadRequest> one_;
};

}  // namespace st::core
