// A device made of a table of functions, with the staging memory that its plans share.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/device.hpp"
#include "core/slot_pool.hpp"
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
  // How many queues a device gets for these limits; throws as the constructor, so that nothing has to be opened before.
  static std::uint32_t queues(const DeviceLimits& limits);

  std::size_t slot_bytes() const override { return slot_bytes_; }
  SlotPool& slots() override { return slots_; }
  std::byte* new_slot() override;
  void free_slot(std::byte* slot) noexcept override;
  DeviceMark begin_copies(std::span<const DeviceCopy> copies) override;
  void wait(const DeviceMark& mark) override;
  void after(void* stream) override;

  bool takes_streams() const { return table_->after != nullptr; }
  void* alloc(std::uint64_t bytes) const;
  void release(void* memory) const;

 private:
  void check(std::int32_t code, const char* what) const;

  const device::OwnedTable table_;
  const std::uint32_t queues_;
  const std::size_t slot_bytes_;
  std::atomic<std::uint32_t> next_queue_{0};
  SlotPool slots_;
};

}  // namespace st::core
