// Devices made from the caller's functions: which are required, how their results are reported, and that close is
// called once.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>

#include "driver.hpp"
#include "model.hpp"

namespace st::test {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

// A device whose memory is the host's. It copies when it is waited for.
struct Table {
  int closed = 0;
  std::size_t allocated = 0;
  std::size_t most = SIZE_MAX;  // slots
  std::int32_t fails = 0;       // the result of copy
  int slow = 0;                 // this many waits take longer than a read that should be shorter
  std::mutex mutex;
  std::vector<std::vector<st_device_copy>> copies;
  std::set<std::uint32_t> queues;

  st_device_ops ops() {
    st_device_ops ops = ST_INIT(st_device_ops);
    ops.ctx = this;
    ops.host_alloc = [](void* ctx, std::size_t size) -> void* {
      auto& self = *static_cast<Table*>(ctx);
      const std::lock_guard lock(self.mutex);
      if (self.allocated == self.most) return nullptr;
      ++self.allocated;
      return std::aligned_alloc(4096, size);
    };
    ops.host_free = [](void* ctx, void* memory, std::size_t) {
      --static_cast<Table*>(ctx)->allocated;
      std::free(memory);
    };
    ops.copy = [](void* ctx, std::uint32_t queue, const st_device_copy* given, std::size_t n, std::uint64_t* mark) {
      auto& self = *static_cast<Table*>(ctx);
      const std::lock_guard lock(self.mutex);
      if (self.fails != 0) return self.fails;
      self.queues.insert(queue);
      *mark = self.copies.size() * 100 + queue;
      self.copies.emplace_back(given, given + n);
      return 0;
    };
    ops.wait = [](void* ctx, std::uint32_t queue, std::uint64_t mark) {
      auto& self = *static_cast<Table*>(ctx);
      const std::lock_guard lock(self.mutex);
      if (mark % 100 != queue) return 77;
      if (self.slow-- > 0) std::this_thread::sleep_for(std::chrono::milliseconds(21));
      for (const st_device_copy& copy : self.copies[mark / 100]) std::memcpy(copy.dst, copy.src, copy.n);
      self.copies[mark / 100].clear();
      return 0;
    };
    ops.close = [](void* ctx) { ++static_cast<Table*>(ctx)->closed; };
    return ops;
  }
};

DevicePtr make(const st_device_ops& ops, const st_device_options* options, st_status expected) {
  st_device* device = nullptr;
  st_error err = ST_INIT(st_error);
  EXPECT_EQ(st_device_new(&ops, options, &device, &err), expected) << err.message;
  return DevicePtr(device);
}

st_status load(const st_device* device, const Model& model, std::vector<char>& to, st_error* err) {
  const PlanPtr plan = model.plan();
  to.assign(model.data_size(), 0);
  std::size_t at = 0;
  for (std::size_t i = 0; i < model.count(); ++i) {
    EXPECT_EQ(st_plan_add_device(plan.get(), device, nullptr, model.tensor(i), nullptr, nullptr, nullptr,
                                 to.data() + at, model.size(i), nullptr),
              ST_OK);
    at += model.size(i);
  }
  st_read_options options = ST_INIT(st_read_options);
  options.threads = 4;
  return st_plan_run(plan.get(), &options, err);
}

TEST(DeviceTables, FillsAnyDevice) {
  const Model model(std::vector<std::uint64_t>(50, 200'000));
  for (const std::uint32_t queues : {0U, 1U, 7U}) {
    for (const std::size_t most : {std::size_t{1}, std::size_t{3}, SIZE_MAX}) {
      Table table;
      table.most = most;
      st_device_options options = ST_INIT(st_device_options);
      options.queues = queues;
      DevicePtr device = make(table.ops(), &options, ST_OK);
      std::vector<char> got;
      st_error err = ST_INIT(st_error);
      EXPECT_EQ(load(device.get(), model, got, &err), ST_OK) << err.message;
      EXPECT_EQ(std::memcmp(got.data(), model.data(), got.size()), 0);
      EXPECT_EQ(table.queues.size() > 1, queues != 1) << queues;
      device.reset();
      EXPECT_EQ(table.closed, 1);
      EXPECT_EQ(table.allocated, 0U);
    }
  }
}

// After a slow read, later reads are shorter, so a cancel is noticed in time. A wait for the device does not have this
// effect.
TEST(DeviceTables, ReadsDoNotGetShorterBecauseTheDeviceIsSlow) {
  const Model model({10 * kMiB});
  std::vector<char> host(model.data_size());
  std::vector<char> got(model.data_size());
  for (const bool on_host_first : {false, true}) {
    Table table;
    table.slow = 6;
    st_device_options device_options = ST_INIT(st_device_options);
    device_options.staging_bytes = 4 * kMiB;  // in slots of 1 MiB
    const DevicePtr device = make(table.ops(), &device_options, ST_OK);
    const PlanPtr plan = model.plan();
    if (on_host_first) {
      ASSERT_EQ(st_plan_add(plan.get(), model.tensor(0), nullptr, nullptr, nullptr, host.data(), host.size(), nullptr),
                ST_OK);
    }
    ASSERT_EQ(st_plan_add_device(plan.get(), device.get(), nullptr, model.tensor(0), nullptr, nullptr, nullptr,
                                 got.data(), got.size(), nullptr),
              ST_OK);
    st_read_options options = ST_INIT(st_read_options);
    options.threads = 1;
    options.chunk_bytes = kMiB;
    ASSERT_EQ(st_plan_run(plan.get(), &options, nullptr), ST_OK);
    EXPECT_LE(table.slow, 0);
    st_plan_stats stats = ST_INIT(st_plan_stats);
    st_plan_get_stats(plan.get(), &stats);
    EXPECT_EQ(stats.reads, 11U);  // each up to the next multiple of 1 MiB in the file
  }
}

TEST(DeviceTables, WhatAFunctionReturnsIsInTheError) {
  const Model model({100'000});
  Table table;
  table.fails = -31;
  st_device_ops ops = table.ops();
  for (const bool named : {false, true}) {
    if (named) ops.error_name = [](void*, std::int32_t code) { return code == -31 ? "out of luck" : nullptr; };
    const DevicePtr device = make(ops, nullptr, ST_OK);
    std::vector<char> got;
    st_error err = ST_INIT(st_error);
    EXPECT_EQ(load(device.get(), model, got, &err), ST_ERR_DEVICE);
    EXPECT_EQ(err.os_error, -31);
    EXPECT_EQ(std::string(err.message),
              std::string("tensor 't0': starting a copy to the device returned -31") + (named ? ", out of luck" : ""));
  }
}

TEST(DeviceTables, ClosesOnceAlsoIfItIsRefused) {
  struct Case {
    const char* name;
    void (*change)(st_device_ops&, st_device_options&);
    st_status status;
  };
  constexpr Case kCases[] = {
      {"host_alloc", [](st_device_ops& ops, st_device_options&) { ops.host_alloc = nullptr; }, ST_ERR_ARGUMENT},
      {"host_free", [](st_device_ops& ops, st_device_options&) { ops.host_free = nullptr; }, ST_ERR_ARGUMENT},
      {"copy", [](st_device_ops& ops, st_device_options&) { ops.copy = nullptr; }, ST_ERR_ARGUMENT},
      {"wait", [](st_device_ops& ops, st_device_options&) { ops.wait = nullptr; }, ST_ERR_ARGUMENT},
      {"alloc without release",
       [](st_device_ops& ops, st_device_options&) { ops.alloc = [](void*, std::uint64_t, void**) { return 1; }; },
       ST_ERR_ARGUMENT},
      {"flags of the functions", [](st_device_ops& ops, st_device_options&) { ops.flags = 1; }, ST_ERR_UNSUPPORTED},
      {"flags", [](st_device_ops&, st_device_options& options) { options.flags = 2; }, ST_ERR_UNSUPPORTED},
      {"size of the options", [](st_device_ops&, st_device_options& options) { options.struct_size = 5; },
       ST_ERR_STRUCT_SIZE},
      {"ordinal", [](st_device_ops&, st_device_options& options) { options.ordinal = 1; }, ST_ERR_ARGUMENT},
      {"context", [](st_device_ops&, st_device_options& options) { options.context = &options; }, ST_ERR_ARGUMENT},
      {"library", [](st_device_ops&, st_device_options& options) { options.library = ""; }, ST_ERR_ARGUMENT},
      {"staging", [](st_device_ops&, st_device_options& options) { options.staging_bytes = 1; }, ST_ERR_ARGUMENT},
      {"queues", [](st_device_ops&, st_device_options& options) { options.queues = 65; }, ST_ERR_ARGUMENT},
  };
  for (const Case& one : kCases) {
    Table table;
    st_device_ops ops = table.ops();
    st_device_options options = ST_INIT(st_device_options);
    one.change(ops, options);
    EXPECT_EQ(make(ops, &options, one.status), nullptr) << one.name;
    EXPECT_EQ(table.closed, 1) << one.name;
  }
  Table table;
  st_device_ops ops = table.ops();
  ops.struct_size = 4;  // nothing of it can be trusted
  EXPECT_EQ(make(ops, nullptr, ST_ERR_STRUCT_SIZE), nullptr);
  EXPECT_EQ(table.closed, 0);
}

// The same rule as for the struct of st_open_source: tests/capi/ownership.c.
TEST(DeviceTables, ClosesALongerStructThatIsRefused) {
  Table table;
  struct {
    st_device_ops known;
    std::uint64_t later;
  } longer{table.ops(), 1};
  longer.known.struct_size = sizeof longer;
  EXPECT_EQ(make(longer.known, nullptr, ST_ERR_STRUCT_SIZE), nullptr);
  EXPECT_EQ(table.closed, 1);
  for (const std::size_t size : {sizeof(st_device_ops) - 8, sizeof(st_device_ops) + 1, std::size_t{0x10000}}) {
    longer.known.struct_size = static_cast<std::uint32_t>(size);
    EXPECT_EQ(make(longer.known, nullptr, ST_ERR_STRUCT_SIZE), nullptr);
  }
  EXPECT_EQ(table.closed, 1);
}

TEST(DeviceTables, WhatATableLacksIsUnsupported) {
  const Model model({100});
  Table table;
  const DevicePtr device = make(table.ops(), nullptr, ST_OK);
  void* memory = nullptr;
  EXPECT_EQ(st_device_alloc(device.get(), 1, &memory, nullptr), ST_ERR_UNSUPPORTED);
  st_device_release(device.get(), nullptr);
  const PlanPtr plan = model.plan();
  char to[100];
  EXPECT_EQ(st_plan_add_device(plan.get(), device.get(), &table, model.tensor(0), nullptr, nullptr, nullptr, to, 100,
                               nullptr),
            ST_ERR_UNSUPPORTED);
  EXPECT_EQ(st_plan_add_device(plan.get(), device.get(), nullptr, model.tensor(0), nullptr, nullptr, nullptr, to, 99,
                               nullptr),
            ST_ERR_BUFFER_SIZE);
  EXPECT_EQ(
      st_plan_add_device(plan.get(), nullptr, nullptr, model.tensor(0), nullptr, nullptr, nullptr, to, 100, nullptr),
      ST_ERR_ARGUMENT);
  st_device_release(nullptr, nullptr);
  st_device_free(nullptr);
}

TEST(DeviceTables, StatsFillWhatTheStructHas) {
  const Model model({5000});
  const PlanPtr plan = model.plan();
  std::vector<char> to(5000);
  ASSERT_EQ(st_plan_add(plan.get(), model.tensor(0), nullptr, nullptr, nullptr, to.data(), to.size(), nullptr), ST_OK);
  ASSERT_EQ(st_plan_run(plan.get(), nullptr, nullptr), ST_OK);
  st_plan_stats stats = ST_INIT(st_plan_stats);
  st_plan_get_stats(plan.get(), &stats);
  EXPECT_EQ(stats.bytes_wanted, 5000U);
  EXPECT_GE(stats.bytes_read, 5000U);
  EXPECT_EQ(stats.reads, 1U);
  EXPECT_EQ(stats.copies + stats.bytes_copied + stats.staging_bytes, 0U);
  stats.bytes_read = stats.reads = 99;
  stats.struct_size = offsetof(st_plan_stats, bytes_read);
  st_plan_get_stats(plan.get(), &stats);
  EXPECT_EQ(stats.bytes_read, 99U);
  EXPECT_EQ(stats.reads, 99U);
  EXPECT_EQ(stats.struct_size, offsetof(st_plan_stats, bytes_read));
}

TEST(DeviceTables, StatsAreOfTheLastRun) {
  const Model model({5000});
  Table table;
  const DevicePtr device = make(table.ops(), nullptr, ST_OK);
  const PlanPtr plan = model.plan();
  std::vector<char> to(5000);
  ASSERT_EQ(st_plan_add_device(plan.get(), device.get(), nullptr, model.tensor(0), nullptr, nullptr, nullptr, to.data(),
                               to.size(), nullptr),
            ST_OK);
  st_plan_stats stats[] = {ST_INIT(st_plan_stats), ST_INIT(st_plan_stats)};
  for (st_plan_stats& one : stats) {
    ASSERT_EQ(st_plan_run(plan.get(), nullptr, nullptr), ST_OK);
    st_plan_get_stats(plan.get(), &one);
  }
  EXPECT_GT(stats[0].staging_bytes, 0U);
  EXPECT_EQ(stats[1].staging_bytes, stats[0].staging_bytes);
  EXPECT_EQ(stats[1].copies, stats[0].copies);
}

// With threads = 1, everything is reported on the calling thread, even an empty destination.
TEST(DeviceTables, ReadyTellsOfEachDestinationOnce) {
  const Model model({5000, 0, 70'000});
  const PlanPtr plan = model.plan();
  std::vector<char> to(75'000);
  std::size_t at = 0;
  for (std::size_t i = 0; i < model.count(); ++i) {
    ASSERT_EQ(
        st_plan_add(plan.get(), model.tensor(i), nullptr, nullptr, nullptr, to.data() + at, model.size(i), nullptr),
        ST_OK);
    at += model.size(i);
  }
  std::vector<std::size_t> told;
  st_read_options options = ST_INIT(st_read_options);
  options.threads = 1;
  options.ctx = &told;
  options.ready = [](void* ctx, std::size_t i) { static_cast<std::vector<std::size_t>*>(ctx)->push_back(i); };
  ASSERT_EQ(st_plan_run(plan.get(), &options, nullptr), ST_OK);
  std::sort(told.begin(), told.end());
  EXPECT_EQ(told, (std::vector<std::size_t>{0, 1, 2}));
}

// Functions of C++ callers may throw. Exceptions of release functions are swallowed. An exception of host_alloc is the
// plan's error.
TEST(DeviceTables, WhatAFunctionThrowsDoesNotEndTheProcess) {
  static bool throws;
  const Model model(std::vector<std::uint64_t>(9, 900'000));
  Table table;
  st_device_ops ops = table.ops();
  ops.host_alloc = [](void* ctx, std::size_t size) {
    if (throws) throw std::runtime_error("no slot today");
    return static_cast<Table*>(ctx)->ops().host_alloc(ctx, size);
  };
  ops.host_free = [](void* ctx, void* memory, std::size_t size) {
    static_cast<Table*>(ctx)->ops().host_free(ctx, memory, size);
    throw std::runtime_error("freeing");
  };
  ops.alloc = [](void* ctx, std::uint64_t, void** out) {
    *out = ctx;
    return 0;
  };
  ops.release = [](void*, void* memory) {
    EXPECT_NE(memory, nullptr);
    throw std::runtime_error("releasing");
  };
  ops.close = [](void* ctx) {
    ++static_cast<Table*>(ctx)->closed;
    throw std::runtime_error("closing");
  };
  DevicePtr device = make(ops, nullptr, ST_OK);
  std::vector<char> got;
  st_error err = ST_INIT(st_error);
  for (int round = 0; round < 20; ++round) {  // more than the device has slots
    throws = true;
    EXPECT_EQ(load(device.get(), model, got, &err), ST_ERR_INTERNAL);
    EXPECT_EQ(std::string(err.message), "no slot today");
  }
  throws = false;
  EXPECT_EQ(load(device.get(), model, got, &err), ST_OK) << err.message;
  EXPECT_EQ(std::memcmp(got.data(), model.data(), got.size()), 0);
  void* memory = nullptr;
  EXPECT_EQ(st_device_alloc(device.get(), 1, &memory, &err), ST_OK);
  for (void* const one : {memory, static_cast<void*>(nullptr)}) EXPECT_NO_THROW(st_device_release(device.get(), one));
  device.reset();
  EXPECT_EQ(table.closed, 1);
  EXPECT_EQ(table.allocated, 0U);
  ops.copy = nullptr;
  make(ops, nullptr, ST_ERR_ARGUMENT);
  EXPECT_EQ(table.closed, 2);
}

// The system rejects direct reads into it, and would after that not be asked for other reads of the file.
TEST(DeviceTables, ASlotThatIsNotAlignedLeavesDirectReadsToTheOthers) {
  const Model model({17 * kMiB, 1'000'000});  // the read path is chosen for every 16 MiB
  std::vector<char> host(1'000'000);
  std::vector<char> got(17 * kMiB);
  st_read_options options = ST_INIT(st_read_options);
  options.threads = 1;
  options.cache = ST_CACHE_AROUND;
  const auto bytes_read = [&options](const PlanPtr& plan) {
    EXPECT_EQ(st_plan_run(plan.get(), &options, nullptr), ST_OK);
    st_plan_stats stats = ST_INIT(st_plan_stats);
    st_plan_get_stats(plan.get(), &stats);
    return stats.bytes_read;
  };
  const auto add_host = [&](const PlanPtr& plan) {
    EXPECT_EQ(st_plan_add(plan.get(), model.tensor(1), nullptr, nullptr, nullptr, host.data(), host.size(), nullptr),
              ST_OK);
  };
  const PlanPtr alone = model.plan();
  add_host(alone);
  const std::uint64_t directly = bytes_read(alone);  // in whole blocks
  if (directly == host.size()) GTEST_SKIP() << "no direct reads here";
  Table table;
  st_device_ops ops = table.ops();
  ops.host_alloc = [](void*, std::size_t size) -> void* {
    return static_cast<char*>(std::aligned_alloc(4096, size + 4096)) + 1;
  };
  ops.host_free = [](void*, void* memory, std::size_t) { std::free(static_cast<char*>(memory) - 1); };
  const DevicePtr device = make(ops, nullptr, ST_OK);
  const PlanPtr plan = model.plan();
  ASSERT_EQ(st_plan_add_device(plan.get(), device.get(), nullptr, model.tensor(0), nullptr, nullptr, nullptr,
                               got.data(), got.size(), nullptr),
            ST_OK);
  add_host(plan);
  std::fill(host.begin(), host.end(), 0);
  const std::uint64_t before = st_tensor_offset(model.tensor(0));
  EXPECT_EQ(bytes_read(plan), before + got.size() + directly);
  EXPECT_EQ(std::memcmp(got.data(), model.bytes(0), got.size()), 0);
  EXPECT_EQ(std::memcmp(host.data(), model.bytes(1), host.size()), 0);
}

TEST(DeviceTables, ADeviceWithoutAFunctionThatReleasesIgnoresMemory) {
  Table table;
  const DevicePtr device = make(table.ops(), nullptr, ST_OK);
  int memory = 0;
  st_device_release(device.get(), &memory);
}

}  // namespace
}  // namespace st::test
