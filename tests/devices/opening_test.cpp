// Opening devices: which driver is found, and what is said when there is none that can be used.
// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>

#include "driver.hpp"
#include "model.hpp"

namespace st::test {
namespace {

class DeviceOpening : public testing::TestWithParam<const Driver*> {
 protected:
  DeviceOpening() { driver.reset(); }
  ~DeviceOpening() override { driver.expect_clean("in the end"); }

  void expect_refused(const st_device_options& options, st_status status, const char* words) const {
    st_error err = ST_INIT(st_error);
    DevicePtr device;
    EXPECT_EQ(driver.open(options, device, &err), status) << err.message;
    EXPECT_NE(std::string(err.message).find(words), std::string::npos) << err.message;
    EXPECT_EQ(device, nullptr);
  }

  const Driver& driver = *GetParam();
};

INSTANTIATE_TEST_SUITE_P(Drivers, DeviceOpening, testing::Values(&cuda(), &hip()),
                         [](const auto& one) { return one.param->name(); });

TEST_P(DeviceOpening, TheLibraryThatIsLoadedComesFirst) {
  st_device_options options = ST_INIT(st_device_options);  // no path: the fake is the one of its name
  DevicePtr device;
  st_error err = ST_INIT(st_error);
  EXPECT_EQ(driver.open(options, device, &err), ST_OK) << err.message;
  EXPECT_GT(driver.calls(), 0);
}

TEST_P(DeviceOpening, ADriverThatCannotBeUsedIsUnsupported) {
  st_device_options options = driver.options();
  options.library = "/nonexistent/libdriver.so.1";
  expect_refused(options, ST_ERR_UNSUPPORTED, "/nonexistent/libdriver.so.1");
  expect_refused(options, ST_ERR_UNSUPPORTED, "cannot open shared object file");
  options.library = ST_NO_DRIVER;
  expect_refused(options, ST_ERR_UNSUPPORTED, "too old");
  driver.set_devices(0);
  expect_refused(driver.options(), ST_ERR_UNSUPPORTED, "no device");
}

TEST_P(DeviceOpening, AnOrdinalThatIsNoneIsARange) {
  for (const int ordinal : {-1, 2, 1000}) expect_refused(driver.options(ordinal), ST_ERR_RANGE, "of 2");
}

TEST_P(DeviceOpening, AnotherErrorOfTheDriverIsItsOwn) {
  driver.set_init(999);
  expect_refused(driver.options(), ST_ERR_DEVICE, "999");
}

TEST_P(DeviceOpening, OptionsThatMakeNoSenseAreRefused) {
  st_device_options options = driver.options();
  options.flags = 1;
  expect_refused(options, ST_ERR_UNSUPPORTED, "flags");
  options = driver.options();
  options.staging_bytes = (4U << 20) - 1;
  expect_refused(options, ST_ERR_ARGUMENT, "4194304");
  options = driver.options();
  options.queues = 65;
  expect_refused(options, ST_ERR_ARGUMENT, "65");
  EXPECT_EQ(driver.calls(), 0);  // before the driver hears of anything
  options = driver.options();
  options.library = "";
  expect_refused(options, ST_ERR_ARGUMENT, "empty");
  options = driver.options();
  options.struct_size = 7;
  expect_refused(options, ST_ERR_STRUCT_SIZE, "7");
}

TEST_P(DeviceOpening, TheCallersCurrentDeviceStays) {
  const int before = driver.depth();
  {
    const DevicePtr device = driver.opened(1);
    EXPECT_EQ(driver.depth(), before);
    const DeviceMemory memory(driver, device.get(), 100);
    EXPECT_EQ(driver.depth(), before);
  }
  EXPECT_EQ(driver.depth(), before);
}

TEST(CudaOpening, AStubIsRecognised) {
  cuda().reset();
  cuda().set_init(34);
  st_error err = ST_INIT(st_error);
  DevicePtr device;
  EXPECT_EQ(cuda().open(cuda().options(), device, &err), ST_ERR_UNSUPPORTED);
  EXPECT_NE(std::string(err.message).find("stub"), std::string::npos) << err.message;
}

TEST(CudaOpening, ADriverOfAnotherVersionThanTheKernelsPartIsUnsupported) {
  for (const int code : {803, 804}) {
    cuda().reset();
    cuda().set_init(code);
    DevicePtr device;
    EXPECT_EQ(cuda().open(cuda().options(), device), ST_ERR_UNSUPPORTED);
  }
}

TEST(CudaOpening, AContextOfTheCallerIsUsedAndStaysTheCallers) {
  cuda().reset();
  const Model model({100'000});
  st_device_options options = cuda().options();
  options.context = cuda().new_context(0);
  cuda().allow_only(options.context);
  DevicePtr device;
  ASSERT_EQ(cuda().open(options, device), ST_OK);
  {
    const DeviceMemory memory(cuda(), device.get(), model.data_size());
    const PlanPtr plan = model.plan();
    ASSERT_EQ(st_plan_add_device(plan.get(), device.get(), nullptr, model.tensor(0), nullptr, nullptr, nullptr,
                                 memory.at(0), model.size(0), nullptr),
              ST_OK);
    EXPECT_EQ(st_plan_run(plan.get(), nullptr, nullptr), ST_OK);
    EXPECT_EQ(std::memcmp(memory.contents().data(), model.data(), model.size(0)), 0);
  }
  device.reset();
  cuda().expect_clean("in the end");
}

TEST(HipOpening, TakesNoContext) {
  hip().reset();
  st_device_options options = hip().options();
  options.context = &options;
  DevicePtr device;
  EXPECT_EQ(hip().open(options, device), ST_ERR_ARGUMENT);
}

}  // namespace
}  // namespace st::test
