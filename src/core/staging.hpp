// The staging memory of one thread: it fills one slot while the device copies from the others.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/device.hpp"

namespace st::core {

// Receives word of what was read. Any thread may call it.
class ReadListener {
 public:
  virtual void arrived(std::size_t entry, std::uint64_t bytes) = 0;
  virtual bool stopped() const = 0;  // true: read nothing more

 protected:
  ~ReadListener() = default;
};

// Bytes of an entry of a plan.
struct Arrival {
  std::size_t entry = 0;
  std::uint64_t bytes = 0;
};

class Staging {
 public:
  explicit Staging(ReadListener& listener) : listener_(listener) {}
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;
  ~Staging();  // waits for the copies that have begun

  // Returns a slot that may be written to, until begin_copies(). Slots of other devices that were returned before may
  // have been given back by then.
  std::byte* next_slot(Device& device);

  // Begins copies from the slot that next_slot() returned last. The listener is told of the arrivals when the bytes
  // have reached the device's memory.
  void begin_copies(std::span<const DeviceCopy> copies, std::span<const Arrival> arrivals);

  // Waits until all copies have been made.
  void finish();

  // After an exception: an entry whose bytes the device did not get.
  std::optional<std::size_t> undelivered_entry() const { return undelivered_; }

 private:
  struct Slot {
    Device* device = nullptr;
    std::byte* memory = nullptr;
    std::uint64_t used = 0;  // when: the least was used first
    DeviceMark mark;
    bool copying = false;
    std::vector<Arrival> arrivals;
  };

  Slot* take_slot(Device& device);
  void wait(Slot& slot);
  void release() noexcept;

  ReadListener& listener_;
  std::vector<Slot> slots_;  // of all devices
  std::uint64_t uses_ = 0;
  std::size_t current_ = 0;
  std::optional<std::size_t> undelivered_;
};

}  // namespace st::core
