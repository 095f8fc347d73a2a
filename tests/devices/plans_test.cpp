// Plans that fill devices: every byte arrives, in every layout, within the limit of staging memory.
//
// The devices copy as late as allowed, so a slot that is overwritten too early gives wrong bytes. One test proves this.
// SPDX-License-Identifier: Apache-2.0
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <thread>

#include "driver.hpp"
#include "model.hpp"

namespace st::test {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

st_plan_stats stats_of(const PlanPtr& plan) {
  st_plan_stats stats = ST_INIT(st_plan_stats);
  st_plan_get_stats(plan.get(), &stats);
  return stats;
}

class DevicePlans : public testing::TestWithParam<const Driver*> {
 protected:
  DevicePlans() { driver.reset(); }
  ~DevicePlans() override { driver.expect_clean("in the end"); }

  static void add(const PlanPtr& plan, const DevicePtr& device, const st_tensor* tensor, std::byte* dst,
                  void* stream = nullptr) {
    st_error err = ST_INIT(st_error);
    const auto bytes = static_cast<std::size_t>(st_tensor_bytes(tensor));
    ASSERT_EQ(st_plan_add_device(plan.get(), device.get(), stream, tensor, nullptr, nullptr, nullptr, dst, bytes, &err),
              ST_OK)
        << err.message;
  }

  static void run(const PlanPtr& plan, const st_read_options& options = ST_INIT(st_read_options)) {
    st_error err = ST_INIT(st_error);
    ASSERT_EQ(st_plan_run(plan.get(), &options, &err), ST_OK) << err.message;
  }

  const Driver& driver = *GetParam();
};

INSTANTIATE_TEST_SUITE_P(Drivers, DevicePlans, testing::Values(&cuda(), &hip()),
                         [](const auto& one) { return one.param->name(); });

struct Layout {
  const char* name;
  std::size_t tensors;
  std::size_t bytes;  // of each, about
};

constexpr Layout kLayouts[] = {{"160 tensors", 160, 60'000},
                               {"2,000 small tensors", 2000, 700},
                               {"18,867 tensors", 18'867, 90},
                               {"few long tensors", 3, 5'000'000}};

TEST_P(DevicePlans, EveryLayoutArrivesOnTwoDevicesAndTheHost) {
  for (const Layout& layout : kLayouts) {
    std::mt19937_64 random(layout.tensors);
    std::vector<std::uint64_t> sizes(layout.tensors);
    for (std::uint64_t& size : sizes) size = layout.bytes / 2 + random() % layout.bytes;
    const Model model(sizes);
    for (const std::uint64_t staging : {std::uint64_t{4} * kMiB, std::uint64_t{0}}) {
      driver.reset();
      const DevicePtr devices[] = {driver.opened(0, staging), driver.opened(1, staging)};
      const DeviceMemory first(driver, devices[0].get(), model.data_size());
      const DeviceMemory second(driver, devices[1].get(), model.data_size());
      std::vector<std::byte> host(model.data_size());
      const PlanPtr plan = model.plan();
      std::size_t at = 0;
      std::vector<std::size_t> place(model.count());
      for (std::size_t i = 0; i < model.count(); ++i) {
        place[i] = random() % 3;
        if (place[i] == 0) add(plan, devices[0], model.tensor(i), first.at(at));
        if (place[i] == 1) add(plan, devices[1], model.tensor(i), second.at(at));
        if (place[i] == 2) {
          ASSERT_EQ(st_plan_add(plan.get(), model.tensor(i), nullptr, nullptr, nullptr, host.data() + at, model.size(i),
                                nullptr),
                    ST_OK);
        }
        at += model.size(i);
      }
      st_read_options options = ST_INIT(st_read_options);
      options.threads = staging == 0 ? 0 : 8;
      run(plan, options);
      EXPECT_EQ(driver.in_flight(), 0);
      const std::vector<std::byte> got[] = {first.contents(), second.contents(), host};
      at = 0;
      for (std::size_t i = 0; i < model.count(); ++i) {
        ASSERT_EQ(std::memcmp(got[place[i]].data() + at, model.bytes(i), model.size(i)), 0)
            << layout.name << ", tensor " << i << " at place " << place[i];
        at += model.size(i);
      }
      const std::uint64_t limit = staging == 0 ? 64 * kMiB : staging;
      EXPECT_LE(driver.most_pinned(), 2 * limit);
      EXPECT_LE(stats_of(plan).staging_bytes, 2 * limit);
    }
  }
}

// A driver's copy cannot cross two allocations, even adjacent ones.
TEST_P(DevicePlans, NeighboursInOneAllocationAreOneCopy) {
  const std::size_t page = 4096;
  const Model model(std::vector<std::uint64_t>(500, page));
  for (const bool apart : {false, true}) {
    driver.reset();
    const DevicePtr device = driver.opened();
    std::vector<std::unique_ptr<DeviceMemory>> all;
    const PlanPtr plan = model.plan();
    std::size_t neighbours = 0;
    for (std::size_t i = 0; i < model.count(); ++i) {
      if (apart || i == 0) {
        all.push_back(std::make_unique<DeviceMemory>(driver, device.get(), apart ? page : model.data_size()));
      }
      if (apart && i > 0 && all[i - 1]->at(page) == all[i]->at(0)) ++neighbours;
      add(plan, device, model.tensor(i), all.back()->at(apart ? 0 : page * i));
    }
    st_read_options options = ST_INIT(st_read_options);
    options.threads = 1;
    run(plan, options);
    const st_plan_stats stats = stats_of(plan);
    EXPECT_EQ(stats.bytes_copied, model.data_size());
    EXPECT_EQ(stats.staging_bytes, driver.pinned());
    if (apart) {
      EXPECT_TRUE(neighbours > 100U || !driver.is_fake()) << "the fake puts memory side by side";
      EXPECT_GE(driver.copies(), 500);
      for (std::size_t i = 0; i < model.count(); ++i) {
        ASSERT_EQ(std::memcmp(all[i]->contents().data(), model.bytes(i), page), 0) << i;
      }
    } else {
      EXPECT_LE(driver.copies(), 10);
      EXPECT_EQ(std::memcmp(all[0]->contents().data(), model.data(), model.data_size()), 0);
    }
  }
}

TEST_P(DevicePlans, NeighboursThatFillAnAllocationAreOneCopyInEveryRun) {
  const Model model({5000, 7000});
  const DevicePtr device = driver.opened();
  const DeviceMemory memory(driver, device.get(), model.data_size());
  const PlanPtr plan = model.plan();
  add(plan, device, model.tensor(0), memory.at(0));
  add(plan, device, model.tensor(1), memory.at(5000));
  run(plan);
  const int held = driver.leaks();
  run(plan);
  EXPECT_EQ(driver.copies(), 2);
  EXPECT_EQ(driver.leaks(), held) << "events and staging memory are reused";
}

// No byte after it may change.
TEST_P(DevicePlans, AnAllocationEndsWithItsLastByte) {
  const std::size_t page = 4096;
  std::vector<std::uint64_t> sizes;
  for (int i = 0; i < 100; ++i) sizes.insert(sizes.end(), {page, 1});
  const Model model(sizes);
  const DevicePtr device = driver.opened();
  std::vector<std::unique_ptr<DeviceMemory>> all;
  const PlanPtr plan = model.plan();
  std::size_t neighbours = 0;
  for (std::size_t i = 0; i < model.count(); ++i) {
    all.push_back(std::make_unique<DeviceMemory>(driver, device.get(), sizes[i]));
    if (i % 2 == 1 && all[i - 1]->at(page) == all[i]->at(0)) ++neighbours;
    add(plan, device, model.tensor(i), all[i]->at(0));
  }
  run(plan);
  EXPECT_TRUE(neighbours > 50U || !driver.is_fake()) << "the fake puts memory side by side";
  EXPECT_GE(driver.copies(), 200);
  for (std::size_t i = 0; i < model.count(); ++i) {
    ASSERT_EQ(std::memcmp(all[i]->contents().data(), model.bytes(i), sizes[i]), 0) << i;
  }
}

TEST_P(DevicePlans, SlicesAreGathered) {
  const Model model({300'000, 6000, 1'000'000, 50'000}, 100);
  const DevicePtr devices[] = {driver.opened(0), driver.opened(1)};
  const DeviceMemory first(driver, devices[0].get(), model.data_size());
  const DeviceMemory second(driver, devices[1].get(), model.data_size());
  const PlanPtr plan = model.plan();
  struct Part {
    std::int64_t begin[2], end[2], step[2];
  };
  constexpr Part kParts[] = {{{0, 7}, {INT64_MAX, 30}, {1, 1}},
                             {{-1, 0}, {-INT64_MAX, INT64_MAX}, {-2, 3}},
                             {{10, 99}, {20, 0}, {1, -1}},
                             {{5, 0}, {INT64_MAX, INT64_MAX}, {1, 1}}};
  struct Expected {
    std::size_t at;
    std::vector<char> bytes;
  };
  std::vector<Expected> all;
  std::size_t at = 1;
  for (std::size_t i = 0; i < model.count(); ++i) {
    const Part& part = kParts[i];
    std::uint64_t bytes = 0;
    ASSERT_EQ(st_tensor_slice(model.tensor(i), part.begin, part.end, part.step, nullptr, &bytes, nullptr, nullptr),
              ST_OK);
    Expected one{at, std::vector<char>(static_cast<std::size_t>(bytes))};
    ASSERT_EQ(st_tensor_read_slice(model.tensor(i), part.begin, part.end, part.step, one.bytes.data(), one.bytes.size(),
                                   nullptr),
              ST_OK);
    for (const int k : {0, 1}) {
      ASSERT_EQ(st_plan_add_device(plan.get(), devices[k].get(), nullptr, model.tensor(i), part.begin, part.end,
                                   part.step, (k == 0 ? first : second).at(at), one.bytes.size(), nullptr),
                ST_OK);
    }
    at += one.bytes.size() + 3;
    all.push_back(std::move(one));
  }
  run(plan);
  for (const DeviceMemory* memory : {&first, &second}) {
    const std::vector<std::byte> got = memory->contents();
    for (const Expected& one : all) EXPECT_EQ(std::memcmp(got.data() + one.at, one.bytes.data(), one.bytes.size()), 0);
  }
}

// Many threads, of two plans at the same time.
TEST_P(DevicePlans, AllPlansOfADeviceStayBelowItsStagingMemory) {
  const Model model(std::vector<std::uint64_t>(5, 3'000'000));
  for (const std::size_t staging : {4 * kMiB, 5 * kMiB + 1, std::size_t{0}}) {
    driver.reset();
    const DevicePtr device = driver.opened(0, staging);
    const DeviceMemory memory(driver, device.get(), 2 * model.data_size());
    PlanPtr plans[] = {model.plan(), model.plan()};
    for (std::size_t k = 0; k < 2; ++k) {
      for (std::size_t i = 0; i < model.count(); ++i) {
        add(plans[k], device, model.tensor(i), memory.at(k * model.data_size() + i * 3'000'000));
      }
    }
    st_read_options options = ST_INIT(st_read_options);
    options.threads = 12;
    options.chunk_bytes = 200'000;
    std::thread other([&] { run(plans[1], options); });
    run(plans[0], options);
    other.join();
    const std::vector<std::byte> got = memory.contents();
    for (const std::size_t at : {std::size_t{0}, model.data_size()}) {
      EXPECT_EQ(std::memcmp(got.data() + at, model.data(), model.data_size()), 0);
    }
    EXPECT_LE(driver.most_pinned(), staging == 0 ? 64 * kMiB : staging);
  }
}

// The other tests rely on this: without the wait for a slot, bytes are wrong.
TEST_P(DevicePlans, ASlotThatIsWrittenToTooEarlyIsNoticed) {
  if (!driver.is_fake()) GTEST_SKIP() << "only a fake driver's waits return too early";
  const Model model({9 * kMiB});
  const DevicePtr device = driver.opened(0, 4 * kMiB);
  const DeviceMemory memory(driver, device.get(), model.data_size());
  const PlanPtr plan = model.plan();
  add(plan, device, model.tensor(0), memory.at(0));
  driver.break_waits(1);
  run(plan);
  EXPECT_GT(driver.in_flight(), 0);
  driver.drain();
  driver.break_waits(0);
  EXPECT_NE(std::memcmp(memory.contents().data(), model.data(), model.data_size()), 0);
  run(plan);
  EXPECT_EQ(std::memcmp(memory.contents().data(), model.data(), model.data_size()), 0);
}

TEST_P(DevicePlans, BytesOfSeveralDestinationsAreReadOnce) {
  const Model model(std::vector<std::uint64_t>(40, 100'000));
  const DevicePtr devices[] = {driver.opened(0), driver.opened(1)};
  const DeviceMemory first(driver, devices[0].get(), model.data_size());
  const DeviceMemory second(driver, devices[1].get(), model.data_size());
  std::vector<char> host(model.data_size());
  std::vector<char> again(model.data_size());
  const PlanPtr plan = model.plan();
  for (std::size_t i = 0; i < model.count(); ++i) {
    add(plan, devices[0], model.tensor(i), first.at(100'000 * i));
    add(plan, devices[1], model.tensor(i), second.at(100'000 * i));
    for (std::vector<char>* memory : {&host, &again}) {
      ASSERT_EQ(st_plan_add(plan.get(), model.tensor(i), nullptr, nullptr, nullptr, memory->data() + 100'000 * i,
                            100'000, nullptr),
                ST_OK);
    }
  }
  st_read_options options = ST_INIT(st_read_options);
  options.cache = ST_CACHE_THROUGH;  // which reads no blocks around the bytes
  run(plan, options);
  const st_plan_stats stats = stats_of(plan);
  EXPECT_EQ(stats.bytes_wanted, 4 * model.data_size());
  EXPECT_EQ(stats.bytes_read, model.data_size());
  EXPECT_EQ(stats.bytes_copied, 2 * model.data_size());
  EXPECT_EQ(std::memcmp(first.contents().data(), model.data(), model.data_size()), 0);
  EXPECT_EQ(std::memcmp(second.contents().data(), model.data(), model.data_size()), 0);
  EXPECT_EQ(std::memcmp(host.data(), model.data(), model.data_size()), 0);
  EXPECT_EQ(std::memcmp(again.data(), model.data(), model.data_size()), 0);
}

TEST_P(DevicePlans, ReadyTellsOfBytesThatTheDeviceHas) {
  const Model model(std::vector<std::uint64_t>(300, 30'000));
  const DevicePtr device = driver.opened(0, 4 * kMiB);
  const DeviceMemory memory(driver, device.get(), model.data_size());
  const PlanPtr plan = model.plan();
  for (std::size_t i = 0; i < model.count(); ++i) add(plan, device, model.tensor(i), memory.at(30'000 * i));
  struct Context {
    const Driver& driver;
    const Model& model;
    const DeviceMemory& memory;
    std::vector<std::atomic<int>> told;
    std::atomic<int> wrong{0};
  } context{driver, model, memory, std::vector<std::atomic<int>>(model.count()), 0};
  st_read_options options = ST_INIT(st_read_options);
  options.ctx = &context;
  options.threads = 4;
  options.ready = [](void* ctx, std::size_t i) {
    auto& self = *static_cast<Context*>(ctx);
    std::vector<char> got(self.model.size(i));
    self.driver.read(self.memory.at(30'000 * i), got.data(), got.size());
    if (std::memcmp(got.data(), self.model.bytes(i), got.size()) != 0) ++self.wrong;
    ++self.told[i];
  };
  run(plan, options);
  EXPECT_EQ(context.wrong, 0);
  for (std::size_t i = 0; i < model.count(); ++i) EXPECT_EQ(context.told[i], 1) << i;
}

// The work of the caller's stream runs when a thread waits for it. Without the ordering, that would be after the
// copies.
TEST_P(DevicePlans, CopiesWaitForTheWorkOfAStream) {
  const Model model({50'000, 2'000'000});
  const DevicePtr device = driver.opened();
  const DeviceMemory memory(driver, device.get(), model.data_size());
  void* const stream = driver.new_stream(0);
  const PlanPtr plan = model.plan();
  add(plan, device, model.tensor(0), memory.at(0), stream);
  add(plan, device, model.tensor(1), memory.at(model.size(0)), stream);
  for (int round = 0; round < 2; ++round) {
    driver.fill(stream, memory.at(0), 0xEE, model.data_size());
    run(plan);
  }
  driver.free_stream(stream);
  EXPECT_EQ(std::memcmp(memory.contents().data(), model.data(), model.data_size()), 0);
}

TEST_P(DevicePlans, TheNumbersOfTheDefaultStreamsAreThoseOfDlpack) {
  const Model model({50'000});
  const DevicePtr device = driver.opened(1);
  const DeviceMemory memory(driver, device.get(), model.data_size());
  for (const std::uintptr_t number : {std::uintptr_t{1}, std::uintptr_t{2}}) {
    const PlanPtr plan = model.plan();
    add(plan, device, model.tensor(0), memory.at(0), reinterpret_cast<void*>(number));
    driver.fill(driver.default_stream(1, number == 2), memory.at(0), 0xEE, model.data_size());
    run(plan);
    EXPECT_EQ(std::memcmp(memory.contents().data(), model.data(), model.data_size()), 0) << number;
  }
}

TEST_P(DevicePlans, ACancelLeavesNoCopyUnderWay) {
  const Model model(std::vector<std::uint64_t>(64, 300'000));
  const DevicePtr device = driver.opened(0, 4 * kMiB);
  const DeviceMemory memory(driver, device.get(), model.data_size());
  const PlanPtr plan = model.plan();
  for (std::size_t i = 0; i < model.count(); ++i) add(plan, device, model.tensor(i), memory.at(300'000 * i));
  for (int after = 0; after < 10; ++after) {
    struct Context {
      const PlanPtr& plan;
      std::atomic<int> left;
    } context{plan, after};
    st_read_options options = ST_INIT(st_read_options);
    options.threads = 3;
    options.ctx = &context;
    options.ready = [](void* ctx, std::size_t) {
      auto& self = *static_cast<Context*>(ctx);
      if (self.left.fetch_sub(1) == 0) st_plan_cancel(self.plan.get());
    };
    const st_status status = st_plan_run(plan.get(), &options, nullptr);
    EXPECT_TRUE(status == ST_ERR_CANCELLED || status == ST_OK) << st_status_name(status);
    EXPECT_EQ(driver.in_flight(), 0);
    const std::vector<std::byte> got = memory.contents();
    for (std::size_t i = 0; i < model.count(); ++i) {
      if (!st_plan_is_complete(plan.get(), i)) continue;
      EXPECT_EQ(std::memcmp(got.data() + 300'000 * i, model.bytes(i), model.size(i)), 0) << i;
    }
  }
}

TEST_P(DevicePlans, ADeviceLivesAsLongAsItsPlans) {
  const Model model({1000});
  DevicePtr device = driver.opened();
  void* memory = nullptr;
  ASSERT_EQ(st_device_alloc(device.get(), 1000, &memory, nullptr), ST_OK);
  PlanPtr plan = model.plan();
  add(plan, device, model.tensor(0), static_cast<std::byte*>(memory));
  st_device* const other = driver.opened().release();
  device.reset();
  run(plan);
  std::vector<char> got(1000);
  driver.read(memory, got.data(), got.size());
  EXPECT_EQ(std::memcmp(got.data(), model.data(), got.size()), 0);
  plan.reset();
  st_device_release(other, memory);
  st_device_free(other);
}

// A fork during a copy would leave the device with the old pages, while the parent gets new ones as soon as it writes.
TEST_P(DevicePlans, NeitherAForkedProcessNorAClosedDeviceHasStagingMemory) {
  const Model model({100'000});
  DevicePtr device = driver.opened();
  auto memory = std::make_unique<DeviceMemory>(driver, device.get(), model.data_size());
  PlanPtr plan = model.plan();
  add(plan, device, model.tensor(0), memory->at(0));
  run(plan);
  if (ST_LINUX_IO == 0) GTEST_SKIP() << "memory goes to every child in this build";
  const void* const slot = driver.first_pinned();
  ASSERT_NE(slot, nullptr);
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  ASSERT_EQ(write(ends[1], slot, 1), 1);
  const auto is_gone = [&] { return write(ends[1], slot, 1) == -1 && errno == EFAULT; };
  const pid_t child = fork();
  if (child == 0) _exit(is_gone() ? 0 : 1);
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0) << "the child has the slot";
  plan.reset();
  memory.reset();
  device.reset();
  EXPECT_TRUE(is_gone()) << "the slot is not freed";
  close(ends[0]);
  close(ends[1]);
}

constexpr int kDefault = 0;  // of linux/mempolicy.h
constexpr int kPreferred = 1;

// -1: the system does not tell.
int policy_of([[maybe_unused]] const void* address) {
  int policy = -1;
#ifdef SYS_get_mempolicy
  constexpr unsigned long kOfAddress = 2;
  std::array<unsigned long, 128> nodes{};
  const unsigned long bits = 8 * sizeof(nodes);
  if (syscall(SYS_get_mempolicy, &policy, nodes.data(), bits, address, kOfAddress) != 0) policy = -1;
#endif
  return policy;
}

bool may_use_node_0() {
#ifdef SYS_get_mempolicy
  constexpr unsigned long kAllowed = 4;
  std::array<unsigned long, 128> nodes{};
  return syscall(SYS_get_mempolicy, nullptr, nodes.data(), 8 * sizeof(nodes), nullptr, kAllowed) == 0 &&
         nodes[0] % 2 != 0;
#else
  return false;
#endif
}

// The fake GPU of CUDA is near node 0. HIP does not report a node, and a context of the caller may be on any GPU.
TEST_P(DevicePlans, StagingMemoryIsOnTheNodeOfTheGpu) {
  if (ST_LINUX_IO == 0 || !driver.is_fake()) GTEST_SKIP() << "no nodes in this build, or a GPU near any node";
  if (access("/sys/devices/system/node/node0", F_OK) != 0 || !may_use_node_0()) GTEST_SKIP() << "no node 0";
  if (policy_of(&driver) != kDefault) GTEST_SKIP() << "the system does not report memory policies or has another one";
  const Model model({100'000});
  const bool is_cuda = driver.name() == "CUDA";
  for (void* const context : {static_cast<void*>(nullptr), is_cuda ? driver.new_context(0) : nullptr}) {
    st_device_options options = driver.options();
    options.context = context;
    DevicePtr device;
    ASSERT_EQ(driver.open(options, device), ST_OK);
    const DeviceMemory memory(driver, device.get(), model.data_size());
    const PlanPtr plan = model.plan();
    add(plan, device, model.tensor(0), memory.at(0));
    run(plan);
    EXPECT_EQ(policy_of(driver.first_pinned()), is_cuda && context == nullptr ? kPreferred : kDefault);
  }
}

}  // namespace
}  // namespace st::test
