// SPDX-License-Identifier: Apache-2.0
#include "core/staging.hpp"

#include <algorithm>
#include <utility>

namespace st::core {

namespace {

// With two a thread reads while its last slot is copied. More would only hold more memory: threads do not wait for each
// other.
constexpr std::ptrdiff_t kSlotsOfThread = 2;

}  // namespace

Staging::~Staging() {
  give_back();
  for (Begun& begun : begun_) {
    try {
      begun.device->slots().land(begun.flight);
    } catch (...) {
      // The run has failed already, or finish() would have waited.
    }
  }
}

void Staging::give_back() noexcept {
  if (slot_ != nullptr) device_->slots().give_back(std::exchange(slot_, nullptr));
}

// The listener may run another plan: what is told to it is told while this thread has no slot to itself.
std::byte* Staging::next_slot(Device& device) {
  give_back();
  const auto is_of_device = [&device](const Begun& begun) { return begun.device == &device; };
  if (std::count_if(begun_.begin(), begun_.end(), is_of_device) == kSlotsOfThread) {
    land(std::find_if(begun_.begin(), begun_.end(), is_of_device));
  }
  slot_ = device.slots().take(listener_);
  device_ = &device;
  return slot_;
}

void Staging::begin_copies(std::span<const DeviceCopy> copies, std::span<const Arrival> arrivals) {
  std::list<Begun> next(1);
  Begun& begun = next.front();
  begun.device = device_;
  begun.arrivals.assign(arrivals.begin(), arrivals.end());
  begun.flight.slot = slot_;
  undelivered_ = begun.arrivals.front().entry;
  begun.flight.mark = device_->begin_copies(copies);
  undelivered_.reset();
  begun_.splice(begun_.end(), next);
  slot_ = nullptr;
  device_->slots().began(begun.flight);
}

void Staging::land(std::list<Begun>::iterator begun) {
  std::list<Begun> landed;
  landed.splice(landed.end(), begun_, begun);
  undelivered_ = landed.front().arrivals.front().entry;
  landed.front().device->slots().land(landed.front().flight);
  undelivered_.reset();
  for (const Arrival& arrival : landed.front().arrivals) listener_.arrived(arrival.entry, arrival.bytes);
}

void Staging::finish() {
  give_back();
  while (!begun_.empty()) land(begun_.begin());
}

}  // namespace st::core
