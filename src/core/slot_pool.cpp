// SPDX-License-Identifier: Apache-2.0
#include "core/slot_pool.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/error.hpp"

namespace st::core {

namespace {

// A cancel does not wake a thread that waits for a slot: the thread looks.
constexpr auto kBetweenLooks = std::chrono::milliseconds(5);

// A thread's place among those that wait, as long as this exists. The pool is locked when it begins and ends.
class Place {
 public:
  Place(std::deque<const void*>& all, std::condition_variable& changed) : all_(all), changed_(changed) {
    all_.push_back(this);
  }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  ~Place() {
    all_.erase(std::find(all_.begin(), all_.end(), this));
    changed_.notify_all();  // another one is the first now
  }

  bool first() const { return all_.front() == this; }

 private:
  std::deque<const void*>& all_;
  std::condition_variable& changed_;
};

}  // namespace

SlotPool::~SlotPool() {
  for (std::byte* const slot : free_) device_.free_slot(slot);
}

std::uint64_t SlotPool::bytes() const {
  const std::lock_guard lock(mutex_);
  return std::uint64_t{slots_} * device_.slot_bytes();
}

void SlotPool::try_again() {
  const std::lock_guard lock(mutex_);
  refused_ = false;
}

std::byte* SlotPool::take(const ReadListener& listener) {
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
        std::byte* const slot = oldest.slot;  // its thread may forget it as soon as it has landed
        wait_for(oldest, lock);
        return slot;
      }
    }
    if (listener.stopped()) return nullptr;
    changed_.wait_for(lock, kBetweenLooks);
  }
}

// A slot that nobody uses, or a new one.
std::byte* SlotPool::take_idle(Lock& lock) {
  if (!free_.empty()) {
    std::byte* const slot = free_.back();
    free_.pop_back();
    return slot;
  }
  const bool may_ask = slots_ < most_ && (!refused_ || slots_ == 0);
  return may_ask ? new_slot(lock) : nullptr;
}

// Returns nullptr if the device gives none, and there are others.
std::byte* SlotPool::new_slot(Lock& lock) {
  free_.reserve(slots_ + 1);  // room comes first: to give back or to begin copies must not need memory
  flights_.reserve(slots_ + 1);
  ++slots_;
  lock.unlock();  // it may take milliseconds
  std::byte* slot = nullptr;
  std::exception_ptr failure;
  try {
    slot = device_.new_slot();
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
  fail(Status::no_memory, "the device gives no staging memory, not even {} bytes", device_.slot_bytes());
}

void SlotPool::give_back(std::byte* slot) noexcept {
  const std::lock_guard lock(mutex_);
  free_.push_back(slot);
  if (!waiting_.empty()) changed_.notify_all();
}

void SlotPool::began(Flight& flight) noexcept {
  const std::lock_guard lock(mutex_);
  flights_.push_back(&flight);
  if (!waiting_.empty()) changed_.notify_all();
}

void SlotPool::land(Flight& flight) {
  {
    Lock lock(mutex_);
    if (flight.state_ == Flight::State::flying) {
      wait_for(flight, lock);
      free_.push_back(flight.slot);
    } else {
      changed_.wait(lock, [&flight] { return flight.state_ == Flight::State::landed; });
    }
  }
  if (flight.failure_ != nullptr) std::rethrow_exception(std::exchange(flight.failure_, nullptr));
}

// The slot is the caller's when this returns, and what the device threw that of the flight's own thread.
void SlotPool::wait_for(Flight& flight, Lock& lock) {
  flights_.erase(std::find(flights_.begin(), flights_.end(), &flight));
  flight.state_ = Flight::State::landing;
  lock.unlock();
  std::exception_ptr failure;
  try {
    device_.wait(flight.mark);
  } catch (...) {
    failure = std::current_exception();
  }
  lock.lock();
  flight.failure_ = std::move(failure);
  flight.state_ = Flight::State::landed;
  changed_.notify_all();
}

}  // namespace st::core
