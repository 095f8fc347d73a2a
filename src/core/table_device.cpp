// SPDX-License-Identifier: Apache-2.0
#include "core/table_device.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "base/error.hpp"

namespace st::core {

namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::uint64_t kUsualStaging = 64 * kMiB;
constexpr std::uint64_t kLeastStaging = 4 * kMiB;

// A copy costs some microseconds however long it is, so that slots should be long; there should be several for each
// thread that reads, so that they should be short. Published measurements reach 0.92 of a bus with copies of 4 MiB.
constexpr std::uint64_t kMostSlot = 4 * kMiB;
constexpr std::uint64_t kLeastSlot = 1 * kMiB;
constexpr std::uint64_t kUsualSlots = 16;

constexpr std::uint32_t kUsualQueues = 2;  // one is busy while the next copy of the other is being prepared
constexpr std::uint32_t kMostQueues = 64;

std::uint64_t staging_of(const DeviceLimits& limits) {
  const std::uint64_t bytes = limits.staging_bytes == 0 ? kUsualStaging : limits.staging_bytes;
  if (bytes < kLeastStaging) {
    fail(Status::argument, "staging memory of {} bytes, where a device needs {}", bytes, kLeastStaging);
  }
  return std::min<std::uint64_t>(bytes, SIZE_MAX / 2);
}

std::size_t slot_of(const DeviceLimits& limits) {
  const std::uint64_t slot = std::clamp(staging_of(limits) / kUsualSlots, kLeastSlot, kMostSlot);
  return static_cast<std::size_t>(slot / Device::kSlotAlignment * Device::kSlotAlignment);
}

}  // namespace

std::uint32_t TableDevice::queues(const DeviceLimits& limits) {
  (void)staging_of(limits);
  if (limits.queues > kMostQueues) fail(Status::argument, "{} queues, of at most {}", limits.queues, kMostQueues);
  return limits.queues == 0 ? kUsualQueues : limits.queues;
}

TableDevice::TableDevice(device::OwnedTable table, const DeviceLimits& limits)
    : table_(std::move(table)),
      queues_(queues(limits)),
      slot_bytes_(slot_of(limits)),
      slots_(*this, static_cast<std::size_t>(staging_of(limits) / slot_bytes_)) {}

// The functions of a table return what numbers they like.
void TableDevice::check(std::int32_t code, const char* what) const {
  if (code == 0) return;
  const char* const name = table_->error_name == nullptr ? nullptr : table_->error_name(table_->ctx, code);
  const std::string shown = name == nullptr ? std::string() : formatted(", {}", name);
  throw Error{Status::device, code, kNowhere, formatted("{} returned {}{}", what, code, shown)};
}

std::byte* TableDevice::new_slot() { return static_cast<std::byte*>(table_->host_alloc(table_->ctx, slot_bytes_)); }

void TableDevice::free_slot(std::byte* slot) noexcept {
  device::undisturbed([&] { table_->host_free(table_->ctx, slot, slot_bytes_); });
}

DeviceMark TableDevice::begin_copies(std::span<const DeviceCopy> copies) {
  DeviceMark mark{next_queue_.fetch_add(1, std::memory_order_relaxed) % queues_, 0};
  check(table_->copy(table_->ctx, mark.queue, copies.data(), copies.size(), &mark.number),
        "beginning to copy to the device");
  return mark;
}

void TableDevice::wait(const DeviceMark& mark) {
  check(table_->wait(table_->ctx, mark.queue, mark.number), "copying to the device");
}

void TableDevice::after(void* stream) { check(table_->after(table_->ctx, stream), "waiting for a stream"); }

void* TableDevice::alloc(std::uint64_t bytes) const {
  if (table_->alloc == nullptr) fail(Status::unsupported, "this device has no function that allocates its memory");
  void* memory = nullptr;
  check(table_->alloc(table_->ctx, std::max<std::uint64_t>(bytes, 1), &memory), "allocating memory of the device");
  return memory;
}

void TableDevice::release(void* memory) const {
  if (memory == nullptr || table_->release == nullptr) return;
  device::undisturbed([&] { table_->release(table_->ctx, memory); });
}

}  // namespace st::core
