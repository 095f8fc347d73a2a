// A device that a plan fills, such as a GPU, whose memory the CPU cannot write to.
//
// Bytes are read into slots of staging memory, which the device allocates and copies from. All plans that fill a device
// share its slots. A thread owns a slot only while it fills the slot from a file or from memory, and never during a
// callback. As soon as the slot's copies are in flight, any thread that needs a slot may wait for these copies and take
// it.
//
// Deadlock-free: no thread waits for a slot while it owns one, so it only ever waits for a read or a copy to finish. A
// plan never waits for another plan to end, so a callback (progress, ready, read_at) may run another plan.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <list>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "core/read_listener.hpp"
#include "device/ops.hpp"

namespace st::core {

using DeviceCopy = device::Copy;

struct DeviceLimits {
  std::size_t slot_bytes = 0;  // a multiple of Device::kSlotAlignment
  std::size_t slots = 0;       // the maximum
  std::uint32_t queues = 0;
};

// Turns members of st_device_options, where 0 means the default, into limits. Throws Status::argument.
DeviceLimits device_limits(std::uint64_t staging_bytes, std::uint32_t queues);

// Bytes of one plan entry that have reached the device.
struct Arrival {
  std::size_t entry = 0;
  std::uint64_t bytes = 0;
};

class Device;

// Copies in flight from one slot. Its address stays the same until Device::finish() has returned.
struct Flight {
  Device* device = nullptr;
  std::byte* slot = nullptr;
  std::vector<Arrival> arrivals;  // to report when the copies are done

 private:
  friend class Device;
  enum class State { in_flight, waited_for, done };
  std::uint32_t queue_ = 0;
  std::uint64_t mark_ = 0;  // returned by the device's copy function
  State state_ = State::in_flight;
  std::exception_ptr failure_;  // thrown while waiting
};

// Any thread may call these functions. They throw Status::device if the device fails.
class Device {
 public:
  static constexpr std::size_t kSlotAlignment = 65536;  // enough for every disk

  Device(device::OwnedOps ops, const DeviceLimits& limits) : ops_(std::move(ops)), limits_(limits) {}
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  ~Device();  // frees the slots

  std::size_t slot_bytes() const { return limits_.slot_bytes; }
  std::size_t slots() const { return limits_.slots; }  // the maximum
  std::uint64_t staging_bytes() const;                 // of the slots that exist

  // Returns a slot of slot_bytes(), or nullptr if the listener stops in the meantime. If no slot is idle, allocates
  // one, if the limits allow it. Otherwise waits; waiting threads are served in order. The caller must give the slot
  // back, or begin copies from it.
  std::byte* take_slot(const ReadListener& listener);
  void give_back(std::byte* slot) noexcept;

  // Begins copies from flight.slot. From then on, another thread may wait for these copies and take the slot. If this
  // throws, the caller still owns the slot, and the device does not read it.
  void begin_copies(Flight& flight, std::span<const DeviceCopy> copies);

  // Waits until the copies have reached the device's memory. Call this once for each flight.
  void finish(Flight& flight);

  // Allows new slots to be allocated again after the device has refused one.
  void retry_slots();

  // Makes later copies wait for the work that has been submitted to the stream so far.
  void after(void* stream);
  bool takes_streams() const { return ops_->after != nullptr; }

  void* alloc(std::uint64_t bytes) const;
  void release(void* memory) const;

 private:
  using Lock = std::unique_lock<std::mutex>;

  void check(std::int32_t code, const char* what) const;
  std::byte* take_idle(Lock& lock);
  std::byte* new_slot(Lock& lock);
  void wait_for(Flight& flight, Lock& lock);

  const device::OwnedOps ops_;
  const DeviceLimits limits_;
  std::atomic<std::uint32_t> next_queue_{0};

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::byte*> idle_;     // the most recently used last
  std::vector<Flight*> flights_;     // flights that no thread waits for, oldest first
  std::deque<const void*> waiting_;  // threads, first come, first served
  std::size_t slots_ = 0;            // existing slots, including those being allocated
  bool refused_ = false;             // the device had no memory for another slot
};

// The slots of one thread: it fills one while devices copy from the others.
class Staging {
 public:
  // A thread reads into one slot while its other slot is copied. More slots would only waste memory.
  static constexpr std::size_t kSlotsOfThread = 2;

  explicit Staging(const ReadListener& listener) : listener_(listener) {}
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;
  ~Staging();  // waits for the copies in flight

  // Returns a slot that may be written to until begin_copies(), or nullptr if the listener has stopped. Gives back the
  // previous slot if no copy was started from it.
  std::byte* next_slot(Device& device);

  // Begins copies from the slot that next_slot() returned last. Reports the arrivals, at least one, to the listener
  // when the bytes are in the device's memory.
  void begin_copies(std::span<const DeviceCopy> copies, std::span<const Arrival> arrivals);

  // Gives back the slot that next_slot() returned last, unless copies from it have begun. The caller may then run
  // another plan.
  void give_back() noexcept;

  // Waits for all copies.
  void finish();

  // After an exception: an entry that did not reach the device.
  std::optional<std::size_t> undelivered_entry() const { return undelivered_; }

 private:
  void finish(std::list<Flight>::iterator flight);

  const ReadListener& listener_;
  Device* device_ = nullptr;
  std::byte* slot_ = nullptr;  // of device_, being filled; null: none
  std::list<Flight> flights_;  // of all devices, the oldest first
  std::optional<std::size_t> undelivered_;
};

}  // namespace st::core
