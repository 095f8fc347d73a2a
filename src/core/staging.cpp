// SPDX-License-Identifier: Apache-2.0
#include "core/staging.hpp"

#include <utility>

namespace st::core {

namespace {

// With two a thread reads while its last slot is copied. More would only hold more memory: threads do not wait for each
// other.
constexpr std::size_t kSlotsOfThread = 2;

std::optional<std::size_t> first_entry(const std::vector<Arrival>& arrivals) {
  return arrivals.empty() ? std::nullopt : std::optional(arrivals.front().entry);
}

}  // namespace

Staging::~Staging() { release(); }

// Waits for the copies that have begun, ignoring errors, and gives the slots back.
void Staging::release() noexcept {
  for (Slot& slot : slots_) {
    try {
      if (std::exchange(slot.copying, false)) slot.device->wait(slot.mark);
    } catch (...) {
      // The run has failed already, or finish() would have waited.
    }
    slot.device->give_back(slot.memory);
  }
  slots_.clear();
}

std::byte* Staging::next_slot(Device& device) {
  Slot* slot = take_slot(device);
  if (slot == nullptr) {
    // All slots of this device are in use, and the thread has those of another.
    finish();
    release();
    slot = take_slot(device);
  }
  current_ = static_cast<std::size_t>(slot - slots_.data());
  slot->used = ++uses_;
  wait(*slot);
  return slot->memory;
}

// Returns a new slot, or the one of the thread that was used first, or nullptr if the thread has none of this device
// and would have to wait for one. A thread that holds a slot never waits for another, so that threads cannot wait for
// each other.
Staging::Slot* Staging::take_slot(Device& device) {
  if (slots_.size() == slots_.capacity()) slots_.reserve(slots_.size() + kSlotsOfThread);  // before there is `first`
  Slot* first = nullptr;
  std::size_t own = 0;
  for (Slot& slot : slots_) {
    if (slot.device != &device) continue;
    ++own;
    if (first == nullptr || slot.used < first->used) first = &slot;
  }
  if (own == kSlotsOfThread) return first;
  std::byte* const memory = device.take_slot(slots_.empty());
  if (memory == nullptr) return own == 0 ? nullptr : first;
  return &slots_.emplace_back(Slot{&device, memory, 0, {}, false, {}});
}

void Staging::begin_copies(std::span<const DeviceCopy> copies, std::span<const Arrival> arrivals) {
  Slot& slot = slots_[current_];
  slot.arrivals.assign(arrivals.begin(), arrivals.end());
  undelivered_ = first_entry(slot.arrivals);
  slot.mark = slot.device->begin_copies(copies);
  slot.copying = true;
  undelivered_.reset();
}

void Staging::wait(Slot& slot) {
  if (!std::exchange(slot.copying, false)) return;
  undelivered_ = first_entry(slot.arrivals);
  slot.device->wait(slot.mark);
  undelivered_.reset();
  for (const Arrival& arrival : slot.arrivals) listener_.arrived(arrival.entry, arrival.bytes);
}

void Staging::finish() {
  for (Slot& slot : slots_) wait(slot);
}

}  // namespace st::core
