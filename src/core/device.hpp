// A device that a plan fills with bytes, such as a GPU: the processor cannot write to its memory. Bytes are read into
// staging memory, which the device provides, and the device copies them from there.
//
// The functions may be called by any thread; each throws an Error if the device fails.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace st::core {

struct DeviceCopy {
  std::byte* dst = nullptr;  // an address on the device, which only the device reads or writes
  const std::byte* src = nullptr;
  std::size_t bytes = 0;
};

class Device {
 public:
  // A slot is the staging memory of one read.
  static constexpr std::size_t kSlotAlignment = 65536;  // the most that a disk may ask for

  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  virtual ~Device() = default;

  // Bytes of every slot: a multiple of kSlotAlignment.
  virtual std::size_t slot_bytes() const = 0;

  // A slot for one thread, which gives it back. If the device's staging memory is used up, waits until a slot comes
  // back if wait is true, and returns nullptr if not.
  virtual std::byte* take_slot(bool wait) = 0;
  virtual void give_back(std::byte* slot) noexcept = 0;

  // Begins copies from one slot and returns a mark. The slot must stay as it is until wait(mark) has returned.
  virtual std::uint64_t begin_copies(std::span<const DeviceCopy> copies) = 0;

  // Returns when all copies up to the mark have reached the device's memory.
  virtual void wait(std::uint64_t mark) = 0;

 protected:
  Device() = default;
};

}  // namespace st::core
