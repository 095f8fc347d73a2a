// Plans that fill devices: every byte arrives, even if the device delays copies, rejects calls or runs out of memory.
//
// The device of these tests has memory that the processor cannot touch, and copies as late as allowed, so a slot that
// is reused too early gives wrong bytes. The expected bytes are those that the same plan reads into host memory.
// SPDX-License-Identifier: Apache-2.0
#include "core/device.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "../format/file_front.hpp"
#include "../format/guarded_memory.hpp"
#include "../io/fresh_folder.hpp"
#include "base/error.hpp"
#include "base/parallel_for.hpp"
#include "core/checkpoint.hpp"
#include "core/plan.hpp"
#include "io/source.hpp"

namespace st::core::device_test {
namespace {

constexpr std::size_t kDeviceBytes = std::size_t{12} << 20;

// The functions of a device with memory that the processor cannot touch. It copies as late as allowed.
class LateDriver {
 public:
  explicit LateDriver(std::size_t slot_bytes) : slot_bytes_(slot_bytes), memory_(kDeviceBytes, std::byte{0xEE}) {}
  LateDriver(const LateDriver&) = delete;
  LateDriver& operator=(const LateDriver&) = delete;
  ~LateDriver() {
    EXPECT_TRUE(closed_);
    EXPECT_TRUE(slots_.empty()) << "slots were not given back";
    EXPECT_TRUE(pending_.empty()) << "copies are in flight";
  }

  device::OwnedOps ops() {
    device::Ops ops;
    ops.ctx = this;
    ops.host_alloc = [](void* ctx, std::size_t size) { return static_cast<LateDriver*>(ctx)->new_slot(size); };
    ops.host_free = [](void* ctx, void* slot, std::size_t size) {
      static_cast<LateDriver*>(ctx)->free_slot(slot, size);
    };
    ops.copy = [](void* ctx, std::uint32_t, const DeviceCopy* copies, std::size_t n, std::uint64_t* mark) {
      return static_cast<LateDriver*>(ctx)->copy({copies, n}, mark);
    };
    ops.wait = [](void* ctx, std::uint32_t, std::uint64_t mark) { return static_cast<LateDriver*>(ctx)->wait(mark); };
    ops.error_name = [](void*, std::int32_t) { return "the device failed"; };
    ops.close = [](void* ctx) { static_cast<LateDriver*>(ctx)->closed_ = true; };
    return device::OwnedOps(ops);
  }

  std::byte* address(std::size_t at) { return addresses_ + at; }
  std::byte* contents(std::size_t at) { return memory_.data() + at; }
  std::size_t copies() const { return copies_; }
  std::size_t calls() const { return calls_; }
  std::uint64_t batches() const { return mark_; }
  std::size_t count_slots() const { return slots_.size(); }
  bool failed_in_new_slot() const { return in_new_slot_; }
  void refuse_slots(bool refuses) { refuses_slots_ = refuses; }
  void refuse(const std::byte* address) { refused_ = address; }
  void fail_at(std::size_t call) {
    calls_ = 0;
    in_new_slot_ = false;
    failing_ = call;
  }

 private:
  static constexpr std::int32_t kFailed = 7;

  static std::byte* target(const DeviceCopy& copy) { return static_cast<std::byte*>(copy.dst); }
  static const std::byte* source(const DeviceCopy& copy) { return static_cast<const std::byte*>(copy.src); }

  bool this_call_fails() { return calls_++ == failing_; }

  void* new_slot(std::size_t size) {
    const std::lock_guard lock(mutex_);
    EXPECT_EQ(size, slot_bytes_);
    if (refuses_slots_) return nullptr;
    if (this_call_fails()) {
      in_new_slot_ = true;
      fail(Status::device, "the device failed in call {}", failing_);
    }
    auto* const slot = static_cast<std::byte*>(::operator new (size, std::align_val_t{Device::kSlotAlignment}));
    slots_.insert(slot);
    return slot;
  }

  void free_slot(void* slot, std::size_t size) {
    EXPECT_EQ(size, slot_bytes_);
    EXPECT_EQ(slots_.erase(static_cast<std::byte*>(slot)), 1U);
    ::operator delete (slot, std::align_val_t{Device::kSlotAlignment});
  }

  std::int32_t copy(std::span<const DeviceCopy> copies, std::uint64_t* mark) {
    const std::lock_guard lock(mutex_);
    if (this_call_fails()) return kFailed;
    for (const DeviceCopy& copy : copies) {
      ++copies_;
      const auto slot = std::find_if(slots_.begin(), slots_.end(), [&](const std::byte* memory) {
        return copy.src >= memory && source(copy) + copy.bytes <= memory + slot_bytes_;
      });
      EXPECT_NE(slot, slots_.end()) << "copied from memory that is not the device's";
      EXPECT_TRUE(copy.dst >= addresses_ && target(copy) + copy.bytes <= addresses_ + kDeviceBytes);
    }
    pending_[++mark_].assign(copies.begin(), copies.end());
    *mark = mark_;
    return 0;
  }

  std::int32_t wait(std::uint64_t mark) {
    const std::lock_guard lock(mutex_);
    const auto found = pending_.find(mark);
    EXPECT_NE(found, pending_.end()) << "a mark that was waited for twice, or is none";
    if (found == pending_.end()) return 0;
    const std::vector<DeviceCopy> copies = std::move(found->second);
    pending_.erase(found);
    if (this_call_fails()) return kFailed;
    for (const DeviceCopy& copy : copies) {
      if (copy.dst <= refused_ && refused_ < target(copy) + copy.bytes) return kFailed;
    }
    for (const DeviceCopy& copy : copies) {
      std::memcpy(memory_.data() + (target(copy) - addresses_), copy.src, copy.bytes);
    }
    return 0;
  }

  const std::size_t slot_bytes_;
  std::set<std::byte*> slots_;
  std::map<std::uint64_t, std::vector<DeviceCopy>> pending_;
  const format::GuardedMemory untouchable_{0, kDeviceBytes};
  std::byte* const addresses_ = reinterpret_cast<std::byte*>(untouchable_.end());
  std::vector<std::byte> memory_;
  std::mutex mutex_;
  std::uint64_t mark_ = 0;
  const std::byte* refused_ = nullptr;
  std::size_t copies_ = 0;
  std::size_t calls_ = 0;
  std::size_t failing_ = SIZE_MAX;
  bool in_new_slot_ = false;  // the call that failed was host_alloc()
  bool refuses_slots_ = false;
  bool closed_ = false;
};

struct LateDevice : LateDriver, Device {
  LateDevice(std::size_t slot_bytes, std::size_t most_slots)
      : LateDriver(slot_bytes), Device(ops(), {slot_bytes, most_slots, 1}) {}
};

// Devices of these tests outlive their plans.
std::shared_ptr<Device> borrowed(Device* device) { return {std::shared_ptr<void>(), device}; }
std::shared_ptr<Device> borrowed(Device& device) { return borrowed(&device); }

TEST(DeviceLimits, AreASixteenthOfTheStagingMemoryFromOneMiBToFour) {
  constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
  const struct {
    std::uint64_t staging_bytes;
    std::uint64_t slot_bytes;
    std::uint64_t slots;
  } cases[] = {{0, 4 * kMiB, 16},         {4 * kMiB, kMiB, 4},        {15 * kMiB, kMiB, 15},
               {32 * kMiB, 2 * kMiB, 16}, {100 * kMiB, 4 * kMiB, 25}, {20 * kMiB + 1, 20 * kMiB / 16, 16}};
  for (const auto& which : cases) {
    const DeviceLimits limits = device_limits(which.staging_bytes, 0);
    EXPECT_EQ(limits.slot_bytes, which.slot_bytes) << which.staging_bytes;
    EXPECT_EQ(limits.slots, which.slots) << which.staging_bytes;
    EXPECT_EQ(limits.queues, 2U);
  }
  EXPECT_EQ(device_limits(0, 64).queues, 64U);
  EXPECT_THROW(device_limits(0, 65), Error);
  EXPECT_THROW(device_limits(4 * kMiB - 1, 0), Error);
}

using Shape = std::vector<std::uint64_t>;
const Shape kShapes[] = {{1},         {999},        {300, 64},  {2000, 37},  {5, 40'000},
                         {7, 11, 13}, {20, 30, 40}, {64, 2000}, {1'500'003}, {3, 70'000}};

std::string model_bytes() {
  std::string header = "{";
  std::size_t at = 0;
  for (const Shape& shape : kShapes) {
    std::size_t bytes = 1;
    for (const std::uint64_t dim : shape) bytes *= static_cast<std::size_t>(dim);
    header += formatted(R"({}"t{}":{{"dtype":"U8","shape":[{}],"data_offsets":[{},{}]}})", at == 0 ? "" : ",",
                        &shape - kShapes, fmt::join(shape, ","), at, at + bytes);
    at += bytes;
  }
  header += "}";
  std::string file = format::file_front(header);
  std::mt19937_64 random(1);
  for (std::size_t i = 0; i < at; ++i) file += static_cast<char>(random());
  return file;
}

// Accepts direct reads only, and only of whole blocks.
class DirectSource final : public io::Source {
 public:
  explicit DirectSource(const std::string& bytes) : Source(bytes.size()), bytes_(bytes) {}
  void read_at(std::uint64_t offset, void* dst, std::size_t n) const override {
    std::memcpy(dst, bytes_.data() + offset, n);
  }
  std::unique_ptr<io::SourceReader> open_reader(io::Cache) const override { return std::make_unique<Reader>(*this); }

 private:
  struct Reader final : io::SourceReader {
    explicit Reader(const DirectSource& source) : SourceReader(source), bytes(source.bytes_) {}
    bool is_cached(std::uint64_t, std::uint64_t) override { return false; }
    io::ReadPath path_for(std::uint64_t, std::uint64_t) override { return io::ReadPath::direct; }
    std::uint64_t alignment() const override { return 512; }
    bool read_many(io::ReadPath path, std::span<const io::Read> reads, std::uint64_t needed_end) override {
      EXPECT_EQ(path, io::ReadPath::direct);
      for (const io::Read& read : reads) {
        EXPECT_EQ((read.offset | read.bytes | reinterpret_cast<std::uintptr_t>(read.dst)) % alignment(), 0U);
        if (read.offset < bytes.size()) std::memcpy(read.dst, bytes.data() + read.offset, left_of(read));
      }
      EXPECT_LE(needed_end, bytes.size());
      return true;
    }
    std::size_t left_of(const io::Read& read) const {
      return std::min(read.bytes, bytes.size() - static_cast<std::size_t>(read.offset));
    }
    const std::string& bytes;
  };

  const std::string& bytes_;
};

// The same bytes in memory, in a file that may be read directly, and in a source that must be.
struct Models {
  Models() : bytes(model_bytes()), folder(io::fresh_folder("device")) {
    const std::string path = (folder / "m.safetensors").string();
    std::ofstream(path, std::ios::binary) << bytes;
    in_memory = Checkpoint::open(io::memory_source(bytes.data(), bytes.size(), nullptr, nullptr), {});
    on_disk = Checkpoint::open(path.c_str(), {});
    direct = Checkpoint::open(std::make_unique<DirectSource>(bytes), {});
  }
  ~Models() {
    on_disk.reset();  // Windows does not remove mapped files
    std::filesystem::remove_all(folder);
  }
  Models(const Models&) = delete;

  std::string bytes;
  std::filesystem::path folder;
  CheckpointPtr in_memory;
  CheckpointPtr on_disk;
  CheckpointPtr direct;
};

std::size_t size_of(const Tensor& tensor) { return static_cast<std::size_t>(tensor.bytes()); }

struct Destination {
  std::string tensor;
  bool whole = false;
  std::vector<std::int64_t> begin, end, step;
  std::size_t bytes = 0;
  std::size_t at = 0;  // in the memory of its device
  Device* device = nullptr;
};

void add_whole(Plan& plan, const Checkpoint& checkpoint, const char* name, LateDevice& device, std::size_t at) {
  const Tensor& tensor = *checkpoint.tensor(name);
  plan.add(tensor, nullptr, nullptr, nullptr, device.address(at), tensor.bytes(), borrowed(device));
}

class DeviceTest : public testing::Test {
 protected:
  std::size_t below(std::uint64_t n) { return static_cast<std::size_t>(random_() % n); }

  // A few tensors and slices, some backwards, with the size of each in bytes.
  std::vector<Destination> random_destinations() {
    std::vector<Destination> all(1 + below(7));
    for (Destination& one : all) {
      const std::size_t number = below(std::size(kShapes));
      one.tensor = formatted("t{}", number);
      one.whole = below(2) == 0;
      one.bytes = 1;
      for (const std::uint64_t dim : kShapes[number]) {
        constexpr std::array<std::int64_t, 6> kSteps{1, 1, 1, 2, -1, -3};
        const std::int64_t step = kSteps[below(kSteps.size())];
        const auto length = static_cast<std::int64_t>(dim);
        one.begin.push_back(step < 0 ? length - 1 : static_cast<std::int64_t>(below(dim / 2 + 1)));
        one.end.push_back(step < 0 ? -length - 1 : length);
        one.step.push_back(step);
        const std::int64_t span = step < 0 ? length : length - one.begin.back();
        const std::int64_t stride = step < 0 ? -step : step;
        one.bytes *= static_cast<std::size_t>(one.whole ? length : (span + stride - 1) / stride);
      }
    }
    return all;
  }

  static void add(Plan& plan, const Checkpoint& checkpoint, const Destination& one, void* dst) {
    const Tensor& tensor = *checkpoint.tensor(one.tensor);
    if (one.whole) {
      plan.add(tensor, nullptr, nullptr, nullptr, dst, one.bytes, borrowed(one.device));
    } else {
      plan.add(tensor, one.begin.data(), one.end.data(), one.step.data(), dst, one.bytes, borrowed(one.device));
    }
  }

  std::vector<std::byte> expected(const Destination& one) {
    std::vector<std::byte> bytes(one.bytes);
    Plan plan(*models_.in_memory);
    Destination host = one;
    host.device = nullptr;
    add(plan, *models_.in_memory, host, bytes.data());
    plan.run({});
    return bytes;
  }

  Models models_;
  std::mt19937_64 random_{20};
};

TEST_F(DeviceTest, FillsSeveralDevicesAndTheHostInOnePass) {
  constexpr std::array<io::Cache, 4> kCaches{io::Cache::automatic, io::Cache::through, io::Cache::around,
                                             io::Cache::mapped};
  const std::vector<std::byte> untouched(kDeviceBytes, std::byte{0xEE});
  for (int round = 0; round < 25; ++round) {
    LateDevice small(Device::kSlotAlignment, 1 + below(3));
    LateDevice large(std::size_t{1} << 20, 4);
    std::vector<std::byte> host = untouched;
    std::array<std::size_t, 3> used{};
    std::vector<Destination> all = random_destinations();
    const Checkpoint* const checkpoints[] = {models_.in_memory.get(), models_.on_disk.get(), models_.direct.get()};
    const Checkpoint& checkpoint = *checkpoints[below(3)];
    Plan plan(checkpoint);
    for (Destination& one : all) {
      const std::size_t place = below(3);
      one.device = place == 0 ? static_cast<Device*>(&small) : place == 1 ? &large : nullptr;
      one.at = used[place] + below(100);
      used[place] = one.at + one.bytes;
      std::byte* const dst = place == 0   ? small.address(one.at)
                             : place == 1 ? large.address(one.at)
                                          : host.data() + one.at;
      add(plan, checkpoint, one, dst);
    }
    ReadOptions options;
    options.threads = static_cast<unsigned>(1 + below(4));
    options.cache = kCaches[below(3)];
    plan.run(options);
    EXPECT_EQ(plan.done(), plan.total());
    EXPECT_EQ(plan.staging_bytes(), small.staging_bytes() + large.staging_bytes());
    for (const Destination& one : all) {
      std::byte* const got = one.device == &small   ? small.contents(one.at)
                             : one.device == &large ? large.contents(one.at)
                                                    : host.data() + one.at;
      const std::vector<std::byte> bytes = expected(one);
      ASSERT_EQ(std::memcmp(got, bytes.data(), bytes.size()), 0) << one.tensor << " in round " << round;
      std::fill_n(got, one.bytes, std::byte{0xEE});
    }
    for (const std::byte* memory : {small.contents(0), large.contents(0), host.data()}) {
      ASSERT_EQ(std::memcmp(memory, untouched.data(), kDeviceBytes), 0)
          << "a byte beside the destinations in round " << round;
    }
  }
}

TEST_F(DeviceTest, ManyThreadsShareOneSlot) {
  LateDevice device(Device::kSlotAlignment, 1);
  Plan plan(*models_.on_disk);
  const Tensor& tensor = *models_.on_disk->tensor("t8");
  plan.add(tensor, nullptr, nullptr, nullptr, device.address(0), tensor.bytes(), borrowed(device));
  ReadOptions options;
  options.threads = 8;
  options.chunk_bytes = 65536;
  plan.run(options);
  EXPECT_TRUE(plan.complete(0));
}

TEST_F(DeviceTest, TwoDestinationsAreTwoCopiesAlsoIfTheyAreNeighbours) {
  LateDevice device(std::size_t{4} << 20, 1);
  Plan plan(*models_.in_memory);
  for (std::size_t i = models_.in_memory->count_tensors(); i-- > 0;) {
    const Tensor& tensor = *models_.in_memory->tensor_at(i);
    const auto at = static_cast<std::size_t>(tensor.begin);
    plan.add(tensor, nullptr, nullptr, nullptr, device.address(at), tensor.bytes(), borrowed(device));
  }
  ReadOptions options;
  options.threads = 1;
  options.chunk_bytes = std::size_t{4} << 20;  // all in one batch
  plan.run(options);
  EXPECT_EQ(device.copies(), models_.in_memory->count_tensors());
  EXPECT_EQ(plan.counts().copies, device.copies());
  EXPECT_EQ(plan.counts().bytes_copied, plan.total());
  const auto at = static_cast<std::size_t>(plan.total());
  EXPECT_EQ(std::memcmp(device.contents(0), models_.bytes.data() + models_.bytes.size() - at, at), 0);
}

TEST_F(DeviceTest, IsFilledByAThreadForTwoSlotsAndTwoMiB) {
  for (const std::size_t slots : {2U, 4U, 100U}) {
    LateDevice device(Device::kSlotAlignment, slots);
    Plan plan(*models_.in_memory);
    for (std::size_t i = 0; i < models_.in_memory->count_tensors(); ++i) {
      const Tensor& tensor = *models_.in_memory->tensor_at(i);
      plan.add(tensor, nullptr, nullptr, nullptr, device.address(0), tensor.bytes(), borrowed(device));
    }
    std::size_t threads = 0;
    ReadOptions options;
    options.pool = {&threads, [](void* ctx, std::size_t n, void (*fn)(void*, std::size_t), void* arg) {
                      *static_cast<std::size_t*>(ctx) = n;
                      for (std::size_t i = 0; i < n; ++i) fn(arg, i);
                    }};
    plan.run(options);
    EXPECT_EQ(threads, std::min<std::size_t>({hardware_threads(), slots / 2, 2}));
  }
}

TEST_F(DeviceTest, BytesOfSeveralDestinationsShareASlot) {
  LateDevice device(std::size_t{1} << 20, 2);
  Plan plan(*models_.in_memory);
  for (const std::size_t at : {std::size_t{0}, std::size_t{1} << 20}) {
    add_whole(plan, *models_.in_memory, "t1", device, at);
    add_whole(plan, *models_.in_memory, "t2", device, at + 1000);
  }
  ReadOptions options;
  options.threads = 1;
  plan.run(options);
  EXPECT_EQ(device.batches(), 1U);
}

// The reader reads a gap inside a slot, and skips a gap between two slots.
TEST_F(DeviceTest, AGapIsReadOnlyInsideASlot) {
  LateDevice device(Device::kSlotAlignment, 2);
  Plan plan(*models_.on_disk);
  for (const char* const name : {"t0", "t2", "t4"}) {
    add_whole(plan, *models_.on_disk, name, device, static_cast<std::size_t>(models_.on_disk->tensor(name)->begin));
  }
  ReadOptions options;
  options.threads = 1;
  options.gap_bytes = std::uint64_t{1} << 20;
  options.cache = io::Cache::through;
  plan.run(options);
  EXPECT_LE(plan.counts().bytes_read, models_.on_disk->tensor("t2")->end + models_.on_disk->tensor("t4")->bytes());
  for (const char* const name : {"t0", "t2", "t4"}) {
    const Tensor& tensor = *models_.on_disk->tensor(name);
    const auto begin = static_cast<std::size_t>(tensor.begin);
    const std::size_t data = models_.bytes.size() - static_cast<std::size_t>(models_.on_disk->tensor("t9")->end);
    EXPECT_EQ(std::memcmp(device.contents(begin), models_.bytes.data() + data + begin, size_of(tensor)), 0) << name;
  }
}

TEST_F(DeviceTest, NothingIsInFlightAfterAnyCallFailed) {
  std::size_t failing = 0;
  for (bool reached = true; reached; ++failing) {
    LateDevice device(Device::kSlotAlignment, 2);
    Plan plan(*models_.on_disk);
    std::size_t at = 0;
    for (const char* name : {"t3", "t5", "t7"}) {
      const Tensor& tensor = *models_.on_disk->tensor(name);
      plan.add(tensor, nullptr, nullptr, nullptr, device.address(at), tensor.bytes(), borrowed(device));
      at += size_of(tensor);
    }
    device.fail_at(failing);
    ReadOptions options;
    options.threads = 2;
    bool failed = false;
    try {
      plan.run(options);
    } catch (const Error& error) {
      failed = true;
      EXPECT_EQ(error.status, Status::device);
      EXPECT_NE(error.message.find("the device failed"), std::string::npos) << error.message;
      EXPECT_LT(plan.done(), plan.total());
    }
    reached = device.calls() > failing;
    EXPECT_TRUE(failed || !reached || device.failed_in_new_slot());  // then it works with the existing slots
    device.fail_at(SIZE_MAX);
    plan.run(options);
    EXPECT_EQ(plan.done(), plan.total());
  }
  EXPECT_GT(failing, 8U);
}

TEST_F(DeviceTest, AFailureNamesTheTensorThatTheDeviceDidNotGet) {
  for (const char* const bad : {"t1", "t3", "t5", "t8"}) {
    LateDevice device(Device::kSlotAlignment, 2);
    Plan plan(*models_.in_memory);
    std::size_t at = 0;
    for (std::size_t i = 0; i < models_.in_memory->count_tensors(); ++i) {
      const Tensor& tensor = *models_.in_memory->tensor_at(i);
      plan.add(tensor, nullptr, nullptr, nullptr, device.address(at), tensor.bytes(), borrowed(device));
      // The error names the first tensor of the slot. The last tensor fills many slots, so it is named.
      if (tensor.name() == bad) device.refuse(device.address(at + size_of(tensor) - 1));
      at += size_of(tensor);
    }
    ReadOptions options;
    options.threads = 1;
    try {
      plan.run(options);
      ADD_FAILURE() << "the device did not fail";
    } catch (const Error& error) {
      EXPECT_NE(error.message.find("tensor '"), std::string::npos) << error.message;
      if (std::string_view(bad) == "t8") {
        EXPECT_NE(error.message.find("'t8'"), std::string::npos) << error.message;
      }
    }
  }
}

// Only bytes that have reached the device count, not bytes whose copy has been started.
TEST_F(DeviceTest, BytesArriveWhenTheDeviceHasThem) {
  std::map<std::size_t, std::uint64_t> came;
  ReadListener listener;
  listener.arrived = [&came](std::size_t entry, std::uint64_t bytes) { came[entry] += bytes; };
  LateDevice device(Device::kSlotAlignment, 2);
  Staging staging(listener);
  for (std::size_t round = 0; round < 3; ++round) {
    std::byte* const slot = staging.next_slot(device);
    std::fill_n(slot, 10, static_cast<std::byte>(round));
    const DeviceCopy copy{device.address(10 * round), slot, 10};
    const Arrival arrival{round, 10};
    staging.begin_copies({&copy, 1}, {&arrival, 1});
    EXPECT_EQ(came.size(), round == 2 ? 1U : 0U) << round;
    EXPECT_EQ(staging.undelivered_entry(), std::nullopt) << round;
  }
  staging.finish();
  EXPECT_EQ(staging.undelivered_entry(), std::nullopt);
  EXPECT_EQ(came.size(), 3U);
  for (std::size_t i = 0; i < 30; ++i) EXPECT_EQ(*device.contents(i), static_cast<std::byte>(i / 10));
}

TEST(DeviceSlots, AThreadGivesItsSlotBackWhenItTakesTheNextAndWhenItFinishes) {
  ReadListener stopped;
  stopped.stopped = [] { return true; };  // instead of waiting for a slot
  LateDevice device(Device::kSlotAlignment, 1);
  Staging staging(stopped);
  std::byte* const slot = staging.next_slot(device);
  EXPECT_EQ(staging.next_slot(device), slot);
  staging.finish();
  EXPECT_EQ(Staging(stopped).next_slot(device), slot);
}

TEST(DeviceSlots, AThreadThatWaitsIsServedBeforeOneThatComesLater) {
  LateDevice device(Device::kSlotAlignment, 1);
  std::atomic<bool> waits{false};
  std::atomic<bool> served{false};
  ReadListener listener;
  listener.stopped = [&waits] {
    waits = true;
    return false;
  };
  std::byte* slot = device.take_slot({});
  std::thread other([&] {
    std::byte* const mine = device.take_slot(listener);
    served = true;
    device.give_back(mine);
  });
  while (!waits) std::this_thread::yield();
  device.give_back(slot);
  slot = device.take_slot({});
  EXPECT_TRUE(served);
  device.give_back(slot);
  other.join();
}

TEST(DeviceSlots, AfterARefusalOnlyADeviceWithoutSlotsIsAskedAgain) {
  ReadListener stopped;
  stopped.stopped = [] { return true; };  // instead of waiting for a slot
  LateDevice device(Device::kSlotAlignment, 2);
  device.refuse_slots(true);
  EXPECT_THROW(device.take_slot(stopped), Error);
  device.refuse_slots(false);
  std::byte* const first = device.take_slot(stopped);
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(device.take_slot(stopped), nullptr);
  device.retry_slots();
  std::byte* const second = device.take_slot(stopped);
  EXPECT_NE(second, nullptr);
  device.give_back(first);
  device.give_back(second);
}

// A source in which one read blocks until it is released.
class StuckSource {
 public:
  explicit StuckSource(const std::string& bytes) {
    checkpoint = Checkpoint::open(std::make_unique<Bytes>(*this, bytes), {});
  }
  void stick_after(int reads) { left_ = reads; }
  void wait_until_stuck() const { wait_for(stuck_); }
  void let_go() { free_ = true; }

  CheckpointPtr checkpoint;

 private:
  class Bytes final : public io::Source {
   public:
    Bytes(StuckSource& owner, const std::string& bytes) : Source(bytes.size()), owner_(owner), bytes_(bytes) {}
    void read_at(std::uint64_t offset, void* dst, std::size_t n) const override {
      if (owner_.left_-- == 0) {
        owner_.stuck_ = true;
        wait_for(owner_.free_);
      }
      std::memcpy(dst, bytes_.data() + offset, n);
    }

   private:
    StuckSource& owner_;
    const std::string& bytes_;
  };

  static void wait_for(const std::atomic<bool>& flag) {
    while (!flag) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

  std::atomic<int> left_{-1};
  std::atomic<bool> stuck_{false};
  std::atomic<bool> free_{false};
};

TEST_F(DeviceTest, APlanDoesNotWaitForTheEndOfAnother) {
  StuckSource source(models_.bytes);
  LateDevice device(Device::kSlotAlignment, 2);
  Plan stuck(*source.checkpoint);
  add_whole(stuck, *source.checkpoint, "t8", device, 0);
  source.stick_after(4);  // then it has both slots
  ReadOptions options;
  options.threads = 1;
  options.chunk_bytes = Device::kSlotAlignment;
  std::thread other([&] { stuck.run(options); });
  source.wait_until_stuck();
  Plan plan(*models_.in_memory);
  add_whole(plan, *models_.in_memory, "t7", device, std::size_t{2} << 20);
  plan.run(options);
  EXPECT_TRUE(plan.complete(0));
  source.let_go();
  other.join();
  EXPECT_TRUE(stuck.complete(0));
  EXPECT_EQ(device.count_slots(), 2U);
  const Tensor& tensor = *models_.in_memory->tensor("t7");
  std::vector<std::byte> bytes(size_of(tensor));
  read_slice(tensor, format::slice(tensor, nullptr, nullptr, nullptr), bytes.data(), bytes.size());
  EXPECT_EQ(std::memcmp(device.contents(std::size_t{2} << 20), bytes.data(), bytes.size()), 0);
}

TEST_F(DeviceTest, ACancelEndsThePlanThatWaitsForASlot) {
  const auto read = [](void* ctx, std::uint64_t offset, void* dst, std::size_t n) -> std::int32_t {
    std::memcpy(dst, static_cast<const std::string*>(ctx)->data() + offset, n);
    return 0;
  };
  // It reads before it waits: see TheReadAtOfASourceMayFillTheSameDevice.
  const CheckpointPtr calling_back =
      Checkpoint::open(io::callback_source({read, nullptr, &models_.bytes}, models_.bytes.size()), {});
  const Destination slice{"t7", false, {0, 0}, {64, 1999}, {1, 1}, std::size_t{64} * 1999};
  for (const auto& [file, kind] : {std::pair{models_.in_memory.get(), "whole"},
                                   {models_.in_memory.get(), "slice"},
                                   {models_.in_memory.get(), "twice"},
                                   {calling_back.get(), "whole"}}) {
    SCOPED_TRACE(kind);
    StuckSource source(models_.bytes);
    LateDevice device(Device::kSlotAlignment, 1);
    Plan stuck(*source.checkpoint);
    add_whole(stuck, *source.checkpoint, "t8", device, 0);
    source.stick_after(2);
    ReadOptions options;
    options.threads = 1;
    std::thread other([&] { stuck.run(options); });
    source.wait_until_stuck();  // in a read to the only slot
    Plan plan(*file);
    Destination wanted = slice;
    wanted.device = &device;
    wanted.whole = *kind != 's';
    wanted.bytes = wanted.whole ? std::size_t{64} * 2000 : slice.bytes;
    add(plan, *file, wanted, device.address(std::size_t{2} << 20));
    if (*kind == 't') add(plan, *file, wanted, device.address(std::size_t{3} << 20));
    std::thread waiting([&] { EXPECT_THROW(plan.run(options), Error); });
    // The first cancel may come before the run begins, and then ends that run as well.
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    plan.cancel();
    waiting.join();
    EXPECT_EQ(plan.done(), 0U);
    source.let_go();
    other.join();
    plan.run(options);
    EXPECT_TRUE(plan.complete(0) && stuck.complete(0));
  }
}

// The cancel comes in the middle of a batch.
TEST_F(DeviceTest, NothingIsReadOrCopiedAfterACancel) {
  struct Context {
    const std::string& bytes;
    Plan* plan = nullptr;
    std::size_t reads = 0;
    static std::int32_t read(void* ctx, std::uint64_t offset, void* dst, std::size_t n) {
      auto& self = *static_cast<Context*>(ctx);
      ++self.reads;
      if (self.plan != nullptr) self.plan->cancel();
      std::memcpy(dst, self.bytes.data() + offset, n);
      return 0;
    }
  } context{models_.bytes};
  const CheckpointPtr file =
      Checkpoint::open(io::callback_source({Context::read, nullptr, &context}, models_.bytes.size()), {});
  ReadOptions options;
  options.threads = 1;
  for (const bool twice : {false, true}) {
    LateDevice device(Device::kSlotAlignment, 2);
    Plan plan(*file);
    add_whole(plan, *file, "t4", device, 0);
    if (twice) add_whole(plan, *file, "t4", device, std::size_t{1} << 20);
    context.plan = &plan;
    context.reads = 0;
    EXPECT_THROW(plan.run(options), Error);
    EXPECT_EQ(context.reads, 1U);
    EXPECT_EQ(device.copies(), twice ? 0U : 1U);
  }
}

TEST_F(DeviceTest, ACallbackMayFillTheSameDevice) {
  for (const unsigned threads : {1U, 4U}) {
    LateDevice device(Device::kSlotAlignment, 1);
    Plan inner(*models_.in_memory);
    add_whole(inner, *models_.in_memory, "t7", device, std::size_t{4} << 20);
    struct Context {
      Plan& inner;
      std::mutex mutex;
      std::size_t runs = 0;
    } context{inner, {}, 0};
    Plan plan(*models_.on_disk);
    std::size_t at = 0;
    for (std::size_t i = 0; i < models_.on_disk->count_tensors(); ++i) {
      const Tensor& tensor = *models_.on_disk->tensor_at(i);
      plan.add(tensor, nullptr, nullptr, nullptr, device.address(at), tensor.bytes(), borrowed(device));
      at += size_of(tensor);
    }
    ReadOptions options;
    options.threads = threads;
    options.ctx = &context;
    options.ready = [](void* ctx, std::size_t) {
      auto& self = *static_cast<Context*>(ctx);
      const std::lock_guard lock(self.mutex);
      self.inner.run({});
      ++self.runs;
    };
    plan.run(options);
    EXPECT_EQ(context.runs, models_.on_disk->count_tensors());
    EXPECT_EQ(device.count_slots(), 1U);
    EXPECT_EQ(std::memcmp(device.contents(0), models_.bytes.data() + models_.bytes.size() - at, at), 0);
  }
}

// The cancel comes while the thread acquires the slot for the second half of the slice.
TEST_F(DeviceTest, ProgressMayFillTheSameDeviceAfterACancel) {
  LateDevice device(Device::kSlotAlignment, 1);
  Plan inner(*models_.in_memory);
  add_whole(inner, *models_.in_memory, "t2", device, std::size_t{4} << 20);
  Plan plan(*models_.in_memory);
  add_whole(plan, *models_.in_memory, "t1", device, 0);
  const Destination slice{"t7", false, {0, 0}, {64, 1999}, {1, 1}, std::size_t{64} * 1999, 1000, &device};
  add(plan, *models_.in_memory, slice, device.address(slice.at));
  struct Context {
    Plan& plan;
    Plan& inner;
    bool cancelled = false;
    std::size_t runs = 0;
  } context{plan, inner};
  ReadOptions options;
  options.threads = 1;
  options.ctx = &context;
  options.ready = [](void* ctx, std::size_t) {
    auto& self = *static_cast<Context*>(ctx);
    self.cancelled = true;
    self.plan.cancel();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // progress is called every 10 ms at most
  };
  options.progress = [](void* ctx, std::uint64_t, std::uint64_t) -> std::int32_t {
    auto& self = *static_cast<Context*>(ctx);
    if (!self.cancelled) return 0;
    self.inner.run({});
    ++self.runs;
    return 0;
  };
  EXPECT_THROW(plan.run(options), Error);
  EXPECT_EQ(context.runs, 1U);
  EXPECT_TRUE(inner.complete(0));
}

// Like a cache that reads missing data from another file. There are fewer slots than threads.
TEST_F(DeviceTest, TheReadAtOfASourceMayFillTheSameDevice) {
  struct Context {
    const Models& models;
    LateDevice& device;
    bool on_another_thread = false;
    bool opened = false;
    std::mutex mutex;
    std::size_t runs = 0;

    void run_inner() {
      const std::lock_guard lock(mutex);
      Plan inner(*models.in_memory);
      add_whole(inner, *models.in_memory, "t2", device, std::size_t{8} << 20);
      inner.run({});
      EXPECT_TRUE(inner.complete(0));
      ++runs;
    }
    static std::int32_t read(void* ctx, std::uint64_t offset, void* dst, std::size_t n) {
      auto& self = *static_cast<Context*>(ctx);
      if (self.opened && self.on_another_thread) std::thread([&self] { self.run_inner(); }).join();
      if (self.opened && !self.on_another_thread) self.run_inner();
      std::memcpy(dst, self.models.bytes.data() + offset, n);
      return 0;
    }
  };
  for (const bool on_another_thread : {false, true}) {
    for (const unsigned threads : {1U, 3U}) {
      LateDevice device(Device::kSlotAlignment, 1);
      Context context{models_, device, on_another_thread, false, {}, 0};
      const CheckpointPtr file =
          Checkpoint::open(io::callback_source({Context::read, nullptr, &context, false}, models_.bytes.size()), {});
      context.opened = true;
      std::vector<Destination> all{{"t8", true, {}, {}, {}, 1'500'003, 0, &device},
                                   {"t3", false, {0, 5}, {2000, 9}, {1, 1}, 2000 * 4, 0, &device},
                                   {"t4", false, {0, 0}, {5, 39'000}, {1, 1}, 5 * 39'000, 0, &device},
                                   {"t7", false, {63, 0}, {-65, 2000}, {-1, 2}, 64 * 1000, 0, &device},
                                   {"t7", true, {}, {}, {}, 64 * 2000, 0, &device},
                                   {"t7", true, {}, {}, {}, 64 * 2000, 0, &device}};
      std::size_t at = 0;
      Plan plan(*file);
      for (Destination& one : all) {
        one.at = std::exchange(at, at + one.bytes);
        add(plan, *file, one, device.address(one.at));
      }
      ReadOptions options;
      options.threads = threads;
      options.chunk_bytes = Device::kSlotAlignment;
      plan.run(options);
      EXPECT_GT(context.runs, 20U);
      EXPECT_EQ(device.count_slots(), 1U);
      for (const Destination& one : all) {
        const std::vector<std::byte> bytes = expected(one);
        EXPECT_EQ(std::memcmp(device.contents(one.at), bytes.data(), bytes.size()), 0) << one.tensor;
      }
    }
  }
}

TEST_F(DeviceTest, ADeviceThatRefusedASlotIsAskedAgainByTheNextPlan) {
  LateDevice device(Device::kSlotAlignment, 2);
  ReadOptions options;
  options.threads = 1;
  Plan plan(*models_.in_memory);
  add_whole(plan, *models_.in_memory, "t8", device, 0);
  device.refuse_slots(true);
  EXPECT_THROW(plan.run(options), Error);
  EXPECT_EQ(device.staging_bytes(), 0U);
  device.refuse_slots(false);
  Plan small(*models_.in_memory);
  add_whole(small, *models_.in_memory, "t0", device, 0);
  small.run(options);
  device.refuse_slots(true);
  plan.run(options);
  EXPECT_EQ(device.count_slots(), 1U);
  device.refuse_slots(false);
  plan.run(options);
  EXPECT_EQ(device.count_slots(), 2U);
}

// Regardless of their distance and of the read path.
TEST_F(DeviceTest, ManyShortRunsShareASlot) {
  struct Case {
    const char* tensor;
    std::vector<std::int64_t> begin, end, step;
    std::size_t bytes;
    std::size_t most_batches;
    std::size_t most_copies;
  };
  const Case cases[] = {{"t3", {0, 5}, {2000, 9}, {1, 1}, 2000 * 4, 1, 1},
                        {"t3", {1999, 5}, {-2001, 9}, {-1, 1}, 2000 * 4, 1, 2000},
                        {"t7", {0, 5}, {64, 1990}, {1, 1}, 64 * 1985, 2, 2},
                        {"t6", {0, 3, 7}, {20, 30, 38}, {1, 3, 1}, 20 * 9 * 31, 1, 1}};
  for (const Case& one : cases) {
    for (const std::uint64_t gap : {std::uint64_t{1}, std::uint64_t{0}}) {
      for (const auto& [file, cache] : {std::pair{models_.on_disk.get(), io::Cache::automatic},
                                        {models_.on_disk.get(), io::Cache::around},
                                        {models_.direct.get(), io::Cache::around}}) {
        LateDevice device(Device::kSlotAlignment, 2);
        Destination to{one.tensor, false, one.begin, one.end, one.step, one.bytes, 0, &device};
        Plan plan(*file);
        add(plan, *file, to, device.address(0));
        ReadOptions options;
        options.threads = 1;
        options.gap_bytes = gap;
        options.cache = cache;
        plan.run(options);
        const std::vector<std::byte> bytes = expected(to);
        EXPECT_EQ(std::memcmp(device.contents(0), bytes.data(), bytes.size()), 0);
        EXPECT_LE(device.batches(), one.most_batches) << one.tensor << ", gap " << gap;
        EXPECT_LE(device.copies(), one.most_copies) << one.tensor << ", gap " << gap;
        EXPECT_EQ(plan.counts().bytes_copied, one.bytes);
      }
    }
  }
}

TEST_F(DeviceTest, OfASliceInMemoryTheBytesOfItsRunsAreRead) {
  LateDevice device(Device::kSlotAlignment, 2);
  const Destination destinations[] = {
      {"t3", false, {0, 5}, {2000, 9}, {1, 1}, 2000 * 4, 0, &device},
      {"t4", false, {0, 5}, {5, 25'005}, {1, 1}, 5 * 25'000, 0, &device},  // two runs fit a slot, and the last is alone
      {"t4", false, {0, 5}, {5, 39'005}, {1, 1}, 5 * 39'000, 0, &device},  // two runs do not fit a slot
      {"t9", false, {0, 5}, {3, 70'000}, {1, 1}, 3 * 69'995, 0, &device},  // a run does not fit a slot
  };
  for (const Destination& to : destinations) {
    Plan plan(*models_.in_memory);
    add(plan, *models_.in_memory, to, device.address(0));
    plan.run({});
    EXPECT_EQ(plan.counts().bytes_read, to.bytes);
    const std::vector<std::byte> bytes = expected(to);
    EXPECT_EQ(std::memcmp(device.contents(0), bytes.data(), bytes.size()), 0) << to.tensor;
  }
}

// The first slot ends inside the fourth row.
TEST_F(DeviceTest, AGapThatIsTooLongIsNotReadAfterASlotEither) {
  LateDevice device(Device::kSlotAlignment, 2);
  const Destination to{"t4", false, {0, 0}, {5, 36'000}, {1, 2}, 5 * 18'000, 0, &device};
  Plan plan(*models_.on_disk);
  add(plan, *models_.on_disk, to, device.address(0));
  ReadOptions options;
  options.threads = 1;
  options.gap_bytes = 100;  // 1 between the elements of a row, 4001 between the rows
  options.cache = io::Cache::through;
  plan.run(options);
  EXPECT_LE(plan.counts().bytes_read, 2 * to.bytes);
  const std::vector<std::byte> bytes = expected(to);
  EXPECT_EQ(std::memcmp(device.contents(0), bytes.data(), bytes.size()), 0);
}

TEST_F(DeviceTest, NothingIsCompleteThatTheLastRunHasNotRead) {
  LateDevice device(Device::kSlotAlignment, 1);
  Plan plan(*models_.in_memory);
  plan.add(*models_.in_memory->tensor("t1"), nullptr, nullptr, nullptr, device.address(0), 999, borrowed(device));
  const std::int64_t none[] = {0};
  plan.add(*models_.in_memory->tensor("t0"), nullptr, none, nullptr, device.address(1000), 0, borrowed(device));
  plan.add(*models_.in_memory->tensor("t8"), nullptr, nullptr, nullptr, device.address(2000), 1'500'003,
           borrowed(device));
  ReadOptions options;
  options.threads = 1;
  plan.run(options);
  EXPECT_TRUE(plan.complete(0) && plan.complete(1) && plan.complete(2));
  // The run ends at the empty entry, which is reported before anything is read.
  options.ready = [](void*, std::size_t) { fail(Status::callback, "enough"); };
  EXPECT_THROW(plan.run(options), Error);
  EXPECT_FALSE(plan.complete(0));
  EXPECT_FALSE(plan.complete(2));
}

}  // namespace
}  // namespace st::core::device_test
