// A device that a plan fills with bytes, such as a GPU: the processor cannot write to its memory. Bytes are read into
// slots of staging memory, which the device provides, and the device copies them from there.
//
// Any thread may call the functions; each throws an Error if the device fails.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "device/table.hpp"

namespace st::core {

class SlotPool;

using DeviceCopy = device::Copy;

// Copies that have begun together.
struct DeviceMark {
  std::uint32_t queue = 0;
  std::uint64_t number = 0;
};

class Device {
 public:
  static constexpr std::size_t kSlotAlignment = 65536;  // the most that a disk may ask for

  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  virtual ~Device() = default;

  // Bytes of every slot: a multiple of kSlotAlignment, and not 0.
  virtual std::size_t slot_bytes() const = 0;

  // Its slots, which the pool takes from the next two functions. new_slot() returns nullptr if there is no memory.
  virtual SlotPool& slots() = 0;
  virtual std::byte* new_slot() = 0;
  virtual void free_slot(std::byte* slot) noexcept = 0;

  // Begins copies from one slot and returns a mark. The slot must stay as it is until wait(mark) has returned. If this
  // or wait(mark) throws, the device reads the slot no more.
  virtual DeviceMark begin_copies(std::span<const DeviceCopy> copies) = 0;

  // Returns when the copies of this mark have reached the device's memory. To be called once for each mark.
  virtual void wait(const DeviceMark& mark) = 0;

  // Later copies begin after the work that the stream has been given so far.
  virtual void after(void* stream) = 0;

 protected:
  Device() = default;
};

}  // namespace st::core
