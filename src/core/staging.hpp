// The staging memory of one thread: it fills one slot while the device copies from the others.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <span>
#include <vector>

#include "core/device.hpp"
#include "core/read_listener.hpp"
#include "core/slot_pool.hpp"

namespace st::core {

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

  // Returns a slot that may be written to until begin_copies(), or nullptr if the listener has stopped. What the last one
  // returned is no longer the caller's, also if nothing was copied from it.
  std::byte* next_slot(Device& device);

  // Begins copies from the slot that next_slot() returned last. The listener is told of the arrivals, of which there
  // is one at least, when the bytes have reached the device's memory.
  void begin_copies(std::span<const DeviceCopy> copies, std::span<const Arrival> arrivals);

  // Gives back the slot that next_slot() returned last, if no copies from it have begun: the caller may run another plan.
  void give_back() noexcept;

  // Waits until all copies have been made.
  void finish();

  // After an exception: an entry whose bytes the device did not get.
  std::optional<std::size_t> undelivered_entry() const { return undelivered_; }

 private:
  struct Begun {
    Device* device = nullptr;
    Flight flight;
    std::vector<Arrival> arrivals;
  };

  void land(std::list<Begun>::iterator begun);

  ReadListener& listener_;
  Device* device_ = nullptr;
  std::byte* slot_ = nullptr;  // of the device, which is being filled; null: none
  std::list<Begun> begun_;     // of all devices, the first began first
  std::optional<std::size_t> undelivered_;
};

}  // namespace st::core
