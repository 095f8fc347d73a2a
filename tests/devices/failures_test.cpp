// Each driver call fails once: the run reports it, nothing leaks, and nothing hangs.
// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <set>

#include "driver.hpp"
#include "model.hpp"

namespace st::test {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr std::size_t kBytes = 2 * kMiB;
constexpr int kCode = 4242;  // not an error code of any driver

// The result, by the step at which the run ended.
struct Outcome {
  st_status opening = ST_OK, allocating = ST_OK, running = ST_OK;
  int os_error = 0;
  std::string message;
  std::int64_t calls = 0;  // when the run had ended
};

class DeviceFailures : public testing::TestWithParam<const Driver*> {
 protected:
  DeviceFailures() { driver.reset(); }

  // Opens a device, fills its memory and closes it.
  Outcome load(unsigned threads) {
    Outcome outcome;
    st_error err = ST_INIT(st_error);
    DevicePtr device;
    outcome.opening = driver.open(driver.options(1, 4 * kMiB), device, &err);
    void* memory = nullptr;
    if (outcome.opening == ST_OK) outcome.allocating = st_device_alloc(device.get(), kBytes, &memory, &err);
    if (outcome.opening == ST_OK && outcome.allocating == ST_OK) outcome.running = fill(device, memory, threads, &err);
    outcome.os_error = err.os_error;
    outcome.message = err.message;
    outcome.calls = driver.calls();
    if (device != nullptr && memory != nullptr) st_device_release(device.get(), memory);
    return outcome;
  }

  st_status fill(const DevicePtr& device, void* memory, unsigned threads, st_error* err) {
    const PlanPtr plan = model.plan();
    void* const stream = driver.new_stream(1);
    auto* at = static_cast<std::byte*>(memory);
    for (std::size_t i = 0; i < model.count(); ++i) {
      EXPECT_EQ(st_plan_add_device(plan.get(), device.get(), stream, model.tensor(i), nullptr, nullptr, nullptr, at,
                                   model.size(i), nullptr),
                ST_OK);
      at += model.size(i) + (i == 3 ? 0 : 1);  // so two are one copy
    }
    st_read_options options = ST_INIT(st_read_options);
    options.threads = threads;
    const st_status status = st_plan_run(plan.get(), &options, err);
    EXPECT_EQ(driver.in_flight(), 0);
    std::vector<char> got(kBytes);
    driver.read(memory, got.data(), got.size());
    at = static_cast<std::byte*>(memory);
    for (std::size_t i = 0; i < model.count(); ++i) {
      const auto offset = static_cast<std::size_t>(at - static_cast<std::byte*>(memory));
      EXPECT_TRUE(status != ST_OK || st_plan_is_complete(plan.get(), i));
      if (st_plan_is_complete(plan.get(), i)) {
        EXPECT_EQ(std::memcmp(got.data() + offset, model.bytes(i), model.size(i)), 0) << i;
      }
      at += model.size(i) + (i == 3 ? 0 : 1);
    }
    driver.free_stream(stream);
    return status;
  }

  const Driver& driver = *GetParam();
  const Model model{std::vector<std::uint64_t>(12, 100'001)};
};

INSTANTIATE_TEST_SUITE_P(Drivers, DeviceFailures, testing::Values(&cuda(), &hip()),
                         [](const auto& one) { return one.param->name(); });

// Their failure has no effect: there is a fallback, or the resource is released anyway.
const std::set<std::string> kForgiven = {"cuDeviceGetAttribute",
                                         "cuMemHostRegister_v2",
                                         "cuMemHostUnregister",
                                         "cuStreamDestroy_v2",
                                         "cuEventDestroy_v2",
                                         "cuMemFree_v2",
                                         "cuMemFreeHost",
                                         "cuDevicePrimaryCtxRelease_v2",
                                         "cuCtxPushCurrent_v2",
                                         "cuCtxPopCurrent_v2",
                                         "hipHostRegister",
                                         "hipHostUnregister",
                                         "hipStreamDestroy",
                                         "hipEventDestroy",
                                         "hipFree",
                                         "hipHostFree",
                                         "hipGetDevice",
                                         "cuMemGetAddressRange_v2",
                                         "hipMemGetAddressRange",
                                         "hipSetDevice"};

TEST_P(DeviceFailures, EveryCallFailsOnce) {
  for (const unsigned threads : {1U, 3U}) {
    std::map<std::string, int> forgiven;  // before the end of the run
    std::int64_t nth = 0;
    for (;; ++nth) {
      driver.reset();
      driver.fail_call(nth, kCode);
      const Outcome outcome = load(threads);
      const char* const name = driver.failed_call();
      if (name == nullptr) break;
      const std::string when = std::string(name) + ", call " + std::to_string(nth) + ": " + outcome.message;
      const bool failed = outcome.opening != ST_OK || outcome.allocating != ST_OK || outcome.running != ST_OK;
      if (failed) {
        const st_status status = outcome.opening != ST_OK      ? outcome.opening
                                 : outcome.allocating != ST_OK ? outcome.allocating
                                                               : outcome.running;
        EXPECT_EQ(status, ST_ERR_DEVICE) << when;
        EXPECT_EQ(outcome.os_error, kCode) << when;
        EXPECT_NE(outcome.message.find("4242"), std::string::npos) << when;
      } else {
        EXPECT_EQ(kForgiven.count(name), 1U) << when;
        if (nth < outcome.calls) ++forgiven[name];
      }
      driver.expect_clean(when);
    }
    EXPECT_GT(nth, 60) << "calls";
    // Making the device current is tried twice. Only the allocation of staging memory then succeeds, and only there may
    // the caller's device not be current again. HIP has one function for both.
    const bool is_cuda = driver.name() == "CUDA";
    if (threads == 1 && driver.is_fake()) {
      const int slots = forgiven[is_cuda ? "cuMemHostRegister_v2" : "hipHostRegister"];
      EXPECT_EQ(forgiven[is_cuda ? "cuCtxPushCurrent_v2" : "hipGetDevice"], slots);
      EXPECT_EQ(forgiven[is_cuda ? "cuCtxPopCurrent_v2" : "hipSetDevice"], is_cuda ? slots : 2 * slots);
    }
  }
}

// The last call is the one that makes the caller's device current again.
TEST_P(DeviceFailures, EveryCallOfAReleaseFailsOnce) {
  DevicePtr device = driver.opened(1);
  std::int64_t nth = 0;
  for (;; ++nth) {
    void* memory = nullptr;
    ASSERT_EQ(st_device_alloc(device.get(), kBytes, &memory, nullptr), ST_OK);
    driver.fail_call(nth, kCode);
    st_device_release(device.get(), memory);
    const char* const name = driver.failed_call();
    driver.fail_call(-1, kCode);
    if (name == nullptr) break;
    EXPECT_EQ(driver.last_error(), 0) << name;
  }
  EXPECT_GE(nth, 3) << "calls";
  device.reset();
  driver.expect_clean("in the end");
}

TEST_P(DeviceFailures, EveryCopyFailsOnceWhenItIsMade) {
  if (!driver.is_fake()) GTEST_SKIP() << "only a fake driver's copies fail after they are begun";
  for (const unsigned threads : {1U, 3U}) {
    std::int64_t nth = 0;
    for (;; ++nth) {
      driver.reset();
      driver.fail_copy(nth);
      const Outcome outcome = load(threads);
      if (driver.failures() == 0) break;
      const std::string when = "copy " + std::to_string(nth) + ": " + outcome.message;
      EXPECT_EQ(outcome.running, ST_ERR_DEVICE) << when;
      EXPECT_EQ(outcome.os_error, 700) << when;
      EXPECT_NE(outcome.message.find("FAKE_ILLEGAL_ADDRESS"), std::string::npos) << when;
      driver.expect_clean(when);
    }
    EXPECT_GE(nth, 11) << "copies";
  }
}

TEST_P(DeviceFailures, AFailedCopyNamesATensor) {
  if (!driver.is_fake()) GTEST_SKIP() << "only a fake driver's copies fail after they are begun";
  driver.fail_copy(0);
  const Outcome outcome = load(1);
  EXPECT_EQ(outcome.running, ST_ERR_DEVICE);
  EXPECT_EQ(outcome.message.rfind("tensor 't", 0), 0U) << outcome.message;
}

TEST_P(DeviceFailures, ThereIsAnotherWayToPinMemory) {
  const bool is_cuda = driver.name() == "CUDA";
  driver.refuse(is_cuda ? "cuMemHostRegister_v2" : "hipHostRegister", kCode);
  EXPECT_EQ(load(2).running, ST_OK);
  driver.expect_clean("memory of the driver");
  driver.refuse(is_cuda ? "cuMemHostAlloc" : "hipHostMalloc", 2);  // out of memory
  const Outcome outcome = load(2);
  EXPECT_EQ(outcome.running, ST_ERR_NO_MEMORY);
  EXPECT_NE(outcome.message.find("staging"), std::string::npos) << outcome.message;
  driver.expect_clean("no memory at all");
}

TEST_P(DeviceFailures, ADriverThatFailsToPinIsNoLackOfMemory) {
  const bool is_cuda = driver.name() == "CUDA";
  driver.refuse(is_cuda ? "cuMemHostRegister_v2" : "hipHostRegister", 1);
  driver.refuse(is_cuda ? "cuMemHostAlloc" : "hipHostMalloc", kCode);
  const Outcome outcome = load(2);
  EXPECT_EQ(outcome.running, ST_ERR_DEVICE);
  EXPECT_EQ(outcome.os_error, kCode);
  EXPECT_NE(outcome.message.find("pinning"), std::string::npos) << outcome.message;
  driver.expect_clean("no memory that is pinned");
}

TEST_P(DeviceFailures, ADeviceThatCannotBeMadeCurrentHasNoStagingMemory) {
  const DevicePtr device = driver.opened(1);
  const DeviceMemory memory(driver, device.get(), kBytes);
  const PlanPtr plan = model.plan();
  ASSERT_EQ(st_plan_add_device(plan.get(), device.get(), nullptr, model.tensor(0), nullptr, nullptr, nullptr,
                               memory.at(0), model.size(0), nullptr),
            ST_OK);
  driver.refuse(driver.name() == "CUDA" ? "cuCtxPushCurrent_v2" : "hipGetDevice", kCode);
  st_error err = ST_INIT(st_error);
  EXPECT_EQ(st_plan_run(plan.get(), nullptr, &err), ST_ERR_DEVICE);
  EXPECT_NE(std::string(err.message).find("current returned 4242"), std::string::npos) << err.message;
  driver.reset();
}

TEST_P(DeviceFailures, AStreamThatCannotBeWaitedForNamesATensor) {
  for (const int code : {1, kCode}) {
    driver.reset();
    driver.refuse(driver.name() == "CUDA" ? "cuStreamWaitEvent" : "hipStreamWaitEvent", code);
    const Outcome outcome = load(1);
    EXPECT_EQ(outcome.running, ST_ERR_DEVICE);
    const std::string told = "tensor 't0': waiting for a stream returned " + std::to_string(code);
    EXPECT_EQ(outcome.message.rfind(told, 0), 0U) << outcome.message;
  }
}

}  // namespace
}  // namespace st::test
