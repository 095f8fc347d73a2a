// SPDX-License-Identifier: Apache-2.0
#include "core/device.hpp"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "base/error.hpp"

namespace st::core {

namespace {

constexpr std::uint64_t kDefaultStaging = std::uint64_t{64} << 20;
constexpr std::uint64_t kLeastStaging = std::uint64_t{4} << 20;

// Each copy has a fixed cost of some microseconds, which favors long slots. Each reading thread should have several
// slots, which favors short ones. In published measurements, copies of 4 MiB reach 92 % of the bus bandwidth.
constexpr std::uint64_t kMostSlot = std::uint64_t{4} << 20;
constexpr std::uint64_t kLeastSlot = std::uint64_t{1} << 20;
constexpr std::uint64_t kDefaultSlots = 16;

constexpr std::uint32_t kDefaultQueues = 2;  // one copies while the next copy is prepared on the other
constexpr std::uint32_t kMostQueues = 64;

// A cancel does not wake a thread that waits for a slot. The thread polls.
constexpr auto kPollInterval = std::chrono::milliseconds(5);

// A thread's place in the queue while this object exists. Constructed and destroyed with the device locked.
class Place {
 public:
  Place(std::deque<const void*>& all, std::condition_variable& changed) : all_(all), changed_(changed) {
    all_.push_back(this);
  }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  ~Place() {
    all_.erase(std::find(all_.begin(), all_.end(), this));
    changed_.notify_all();  // another thread is now first in the queue
  }

  bool first() const { return all_.front() == this; }

 private:
  std::deque<const void*>& all_;
  std::condition_variable& changed_;
};

}  // namespace

DeviceLimits device_limits(std::uint64_t staging_bytes, std::uint32_t queues) {
  if (staging_bytes == 0) staging_bytes = kDefaultStaging;
  if (staging_bytes < kLeastStaging) {
    fail(Status::argument, "staging_bytes is {}, but must be at least {}", staging_bytes, kLeastStaging);
  }
  if (queues > kMostQueues) fail(Status::argument, "queues is {}, but must be at most {}", queues, kMostQueues);
  const std::uint64_t staging = std::min<std::uint64_t>(staging_bytes, SIZE_MAX / 2);
  const std::uint64_t slot = std::clamp(staging / kDefaultSlots, kLeastSlot, kMostSlot);
  DeviceLimits limits;
  limits.slot_bytes = static_cast<std::size_t>(slot / Device::kSlotAlignment * Device::kSlotAlignment);
  limits.slots = static_cast<std::size_t>(staging / limits.slot_bytes);
  limits.queues = queues == 0 ? kDefaultQueues : queues;
  return limits;
}

Device::~Device() {
  for (std::byte* const slot : idle_) {
    device::ignoring_exceptions([&] { ops_->host_free(ops_->ctx, slot, limits_.slot_bytes); });
  }
}

// A caller's device may return any error code.
void Device::check(std::int32_t code, const char* what) const {
  if (code == 0) return;
  const char* const name = ops_->error_name == nullptr ? nullptr : ops_->error_name(ops_->ctx, code);
  const std::string shown = name == nullptr ? std::string() : ", " + one_line(name);
  throw Error{Status::device, code, kNowhere, formatted("{} returned {}{}", what, code, shown)};
}

std::uint64_t Device::staging_bytes() const {
  const std::lock_guard lock(mutex_);
  return std::uint64_t{slots_} * limits_.slot_bytes;
}

void Device::retry_slots() {
  const std::lock_guard lock(mutex_);
  refused_ = false;
}

std::byte* Device::take_slot(const ReadListener& listener) {
  Lock lock(mutex_);
  if (waiting_.empty()) {
    if (std::byte* const slot = take_idle(lock); slot != nullptr) return slot;
  }
  const Place place(waiting_, changed_);
  for (;;) {
    if (place.first()) {
      if (std::byte* const slot = take_idle(lock); slot != nullptr) return slot;
      if (!flights_.empty()) {
        Flight& oldest = *flights_.front();
        std::byte* const slot = oldest.slot;  // its thread may destroy the flight as soon as it is finished
        wait_for(oldest, lock);
        return slot;
      }
    }
    if (listener.stopped()) return nullptr;
    changed_.wait_for(lock, kPollInterval);
  }
}

// Returns an idle slot or a new one; nullptr if there is neither.
std::byte* Device::take_idle(Lock& lock) {
  if (!idle_.empty()) {
    std::byte* const slot = idle_.back();
    idle_.pop_back();
    return slot;
  }
  const bool may_ask = slots_ < limits_.slots && (!refused_ || slots_ == 0);
  return may_ask ? new_slot(lock) : nullptr;
}

// Returns nullptr if the device has no memory for another slot, but other slots exist.
std::byte* Device::new_slot(Lock& lock) {
  idle_.reserve(slots_ + 1);  // so that give_back() and begin_copies() need not allocate
  flights_.reserve(slots_ + 1);
  ++slots_;
  lock.unlock();  // allocating may take milliseconds
  std::byte* slot = nullptr;
  std::exception_ptr failure;
  try {
    slot = static_cast<std::byte*>(ops_->host_alloc(ops_->ctx, limits_.slot_bytes));
  } catch (...) {
    failure = std::current_exception();
  }
  lock.lock();
  if (slot != nullptr) return slot;
  --slots_;
  refused_ = true;
  changed_.notify_all();
  if (slots_ != 0) return nullptr;
  if (failure != nullptr) std::rethrow_exception(failure);
  fail(Status::no_memory, "the device could not allocate {} bytes of staging memory", limits_.slot_bytes);
}

void Device::give_back(std::byte* slot) noexcept {
  const std::lock_guard lock(mutex_);
  idle_.push_back(slot);
  if (!waiting_.empty()) changed_.notify_all();
}

void Device::begin_copies(Flight& flight, std::span<const DeviceCopy> copies) {
  flight.queue_ = next_queue_.fetch_add(1, std::memory_order_relaxed) % limits_.queues;
  check(ops_->copy(ops_->ctx, flight.queue_, copies.data(), copies.size(), &flight.mark_),
        "starting a copy to the device");
  const std::lock_guard lock(mutex_);
  flights_.push_back(&flight);
  if (!waiting_.empty()) changed_.notify_all();
}

void Device::finish(Flight& flight) {
  {
    Lock lock(mutex_);
    if (flight.state_ == Flight::State::in_flight) {
      wait_for(flight, lock);
      idle_.push_back(flight.slot);
    } else {
      changed_.wait(lock, [&flight] { return flight.state_ == Flight::State::done; });
    }
  }
  if (flight.failure_ != nullptr) std::rethrow_exception(std::exchange(flight.failure_, nullptr));
}

// When this returns, the calling thread owns the slot. Exceptions are reported to the thread that began the copies.
void Device::wait_for(Flight& flight, Lock& lock) {
  flights_.erase(std::find(flights_.begin(), flights_.end(), &flight));
  flight.state_ = Flight::State::waited_for;
  lock.unlock();
  std::exception_ptr failure;
  try {
    check(ops_->wait(ops_->ctx, flight.queue_, flight.mark_), "copying to the device");
  } catch (...) {
    failure = std::current_exception();
  }
  lock.lock();
  flight.failure_ = std::move(failure);
  flight.state_ = Flight::State::done;
  changed_.notify_all();
}

void Device::after(void* stream) { check(ops_->after(ops_->ctx, stream), "waiting for a stream"); }

void* Device::alloc(std::uint64_t bytes) const {
  if (ops_->alloc == nullptr) fail(Status::unsupported, "this device has no alloc function");
  void* memory = nullptr;
  check(ops_->alloc(ops_->ctx, std::max<std::uint64_t>(bytes, 1), &memory), "allocating device memory");
  return memory;
}

void Device::release(void* memory) const {
  if (memory == nullptr || ops_->release == nullptr) return;
  device::ignoring_exceptions([&] { ops_->release(ops_->ctx, memory); });
}

Staging::~Staging() {
  give_back();
  for (Flight& flight : flights_) {
    // The run has already failed, otherwise finish() would have waited.
    device::ignoring_exceptions([&] { flight.device->finish(flight); });
  }
}

void Staging::give_back() noexcept {
  if (slot_ != nullptr) device_->give_back(std::exchange(slot_, nullptr));
}

// The listener may run another plan, so this thread must own no slot when it calls it.
std::byte* Staging::next_slot(Device& device) {
  give_back();
  const auto is_of_device = [&device](const Flight& flight) { return flight.device == &device; };
  if (std::count_if(flights_.begin(), flights_.end(), is_of_device) == std::ptrdiff_t{kSlotsOfThread}) {
    finish(std::find_if(flights_.begin(), flights_.end(), is_of_device));
  }
  slot_ = device.take_slot(listener_);
  device_ = &device;
  return slot_;
}

void Staging::begin_copies(std::span<const DeviceCopy> copies, std::span<const Arrival> arrivals) {
  std::list<Flight> next(1);
  Flight& flight = next.front();
  flight.device = device_;
  flight.slot = slot_;
  flight.arrivals.assign(arrivals.begin(), arrivals.end());
  undelivered_ = arrivals.front().entry;
  device_->begin_copies(flight, copies);
  undelivered_.reset();
  flights_.splice(flights_.end(), next);
  slot_ = nullptr;
}

void Staging::finish(std::list<Flight>::iterator flight) {
  std::list<Flight> finished;
  finished.splice(finished.end(), flights_, flight);
  undelivered_ = flight->arrivals.front().entry;
  flight->device->finish(*flight);
  undelivered_.reset();
  for (const Arrival& arrival : flight->arrivals) listener_.arrived(arrival.entry, arrival.bytes);
}

void Staging::finish() {
  give_back();
  while (!flights_.empty()) finish(flights_.begin());
}

}  // namespace st::core
