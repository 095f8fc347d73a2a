// The staging memory of a device, slot by slot, which all its plans share.
//
// A thread owns a slot only while it fills it: from a file or from memory, never by a function of the caller. As soon as
// copies from the slot have begun, any thread that needs one may wait for these copies and take it. So a thread that
// waits for a slot waits for a read or a copy, neither of which waits for a slot. Plans do not wait for each other's end,
// and a function of the caller (progress, ready, read_at) may run another plan.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <mutex>
#include <vector>

#include "core/device.hpp"
#include "core/read_listener.hpp"

namespace st::core {

// Copies that have begun from one slot. Its address stays the same until land() has returned.
struct Flight {
  std::byte* slot = nullptr;
  DeviceMark mark;

 private:
  friend class SlotPool;
  enum class State { flying, landing, landed };
  State state_ = State::flying;
  std::exception_ptr failure_;  // what waiting for them threw
};

class SlotPool {
 public:
  // Asks the device for `most` slots at most, each when it is first needed.
  SlotPool(Device& device, std::size_t most) : device_(device), most_(most) {}
  SlotPool(const SlotPool&) = delete;
  SlotPool& operator=(const SlotPool&) = delete;
  ~SlotPool();  // frees the slots

  // Bytes of all slots that there are.
  std::uint64_t bytes() const;

  // A slot that the caller gives back, or from which copies begin. If all are in use it waits for one; threads get theirs
  // in the order in which they came. Returns nullptr if the listener has stopped meanwhile.
  std::byte* take(const ReadListener& listener);
  void give_back(std::byte* slot) noexcept;

  // Copies from the slot that the caller had have begun: from now on it is the pool's.
  void began(Flight& flight) noexcept;

  // Returns when the copies have been made, or throws what the device threw.
  void land(Flight& flight);

  // Asks the device for slots again, also if it has refused one.
  void try_again();

 private:
  using Lock = std::unique_lock<std::mutex>;

  std::byte* take_idle(Lock& lock);
  std::byte* new_slot(Lock& lock);
  void wait_for(Flight& flight, Lock& lock);

  Device& device_;
  const std::size_t most_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::byte*> free_;     // the last one was used last
  std::vector<Flight*> flights_;     // that nobody waits for, the oldest first
  std::deque<const void*> waiting_;  // threads, in their order
  std::size_t slots_ = 0;            // that exist or are being made
  bool refused_ = false;             // the device gave no memory for another slot
};

}  // namespace st::core
