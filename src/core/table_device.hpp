// A device made of a table of functions, with the staging memory that its plans share.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "core/device.hpp"
#include "device/table.hpp"

namespace st::core {

struct DeviceLimits {
  std::uint64_t staging_bytes = 0;  // 0: choose
  std::uint32_t queues = 0;         // 0: choose
};

class TableDevice final : public Device {
 public:
  // Throws Status::argument for limits that are out of range.
  TableDevice(device::OwnedTable table, const DeviceLimits& limits);
  ~TableDevice() override;

  // How many queues a device gets for these limits; throws as the constructor.
  static std::uint32_t queues(const DeviceLimits& limits);

  std::size_t slot_bytes() const override { return slot_bytes_; }
  std::uint64_t staging_bytes() const override;
  std::byte* take_slot(bool wait) override;
  void give_back(std::byte* slot) noexcept override;
  DeviceMark begin_copies(std::span<const DeviceCopy> copies) override;
  void wait(const DeviceMark& mark) override;
  void after(void* stream) override;

  bool takes_streams() const { return table_->after != nullptr; }
  void* alloc(std::uint64_t bytes) const;
  void release(void* memory) const;

 private:
  void check(std::int32_t code, const char* what) const;
  std::byte* new_slot() const;

  const device::OwnedTable table_;
  const std::uint32_t queues_;
  const std::size_t slot_bytes_;
  const std::size_t most_slots_;
  std::atomic<std::uint32_t> next_queue_{0};

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::byte*> free_;  // the last one was used last
  std::size_t slots_ = 0;         // that exist or are being made
  std::size_t waiting_ = 0;
  bool refused_ = false;  // the device gave no memory for another slot
};

}  // namespace st::core
