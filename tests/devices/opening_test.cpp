// Opening devices: which driver is found, and the error if none can be used.
// SPDX-License-Identifier: Apache-2.0
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

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
  if (!driver.is_fake()) GTEST_SKIP() << "only a fake driver has the name of the system's";
  st_device_options options = ST_INIT(st_device_options);  // no path: the fake is the one of its name
  DevicePtr device;
  st_error err = ST_INIT(st_error);
  EXPECT_EQ(driver.open(options, device, &err), ST_OK) << err.message;
  EXPECT_GT(driver.calls(), 0);
}

TEST_P(DeviceOpening, ADriverThatCannotBeUsedIsUnsupported) {
  st_device_options options = driver.options();
  options.library = "/nonexistent/libdriver.so.1";
  expect_refused(options, ST_ERR_UNSUPPORTED, "'/nonexistent/libdriver.so.1' cannot be loaded as a library: ");
  expect_refused(options, ST_ERR_UNSUPPORTED, "cannot open shared object file");
  options.library = ST_NO_DRIVER;
  expect_refused(options, ST_ERR_UNSUPPORTED, "too old");
  for (const int none : {0, -1}) {
    driver.set_devices(none);
    expect_refused(driver.options(), ST_ERR_UNSUPPORTED, "no device");
  }
}

TEST_P(DeviceOpening, TheOnlyDeviceIsOne) {
  driver.set_devices(1);
  EXPECT_NE(driver.opened(0), nullptr);
  expect_refused(driver.options(1), ST_ERR_RANGE, "the driver has 1");
}

TEST_P(DeviceOpening, CreatesAStreamForEachQueue) {
  st_device_options options = driver.options();
  options.queues = 3;
  DevicePtr device;
  EXPECT_EQ(driver.open(options, device), ST_OK);
  EXPECT_EQ(driver.leaks(), driver.name() == "CUDA" ? 4 : 3);  // CUDA has a context, too
}

// A folder in the library search path, and a process that has not loaded a driver yet.
class InstalledDriver : public testing::Test {
 protected:
  InstalledDriver() {
    std::string folder = (std::filesystem::temp_directory_path() / "drivers-XXXXXX").string();
    folder_ = mkdtemp(folder.data());
  }
  ~InstalledDriver() override { std::filesystem::remove_all(folder_); }

  void install(const char* library, const char* name) const {
    std::filesystem::create_symlink(library, folder_ / name);
  }

  // `loaded`: a library that the process loads before it opens the driver. Returns its exit status.
  int open_in_another_process(const char* driver, const char* loaded) const {
    const char* const emulator = std::getenv("ST_EMULATOR");
    std::vector<std::string> words = {ST_INSTALLED, driver};
    if (loaded != nullptr) words.emplace_back(loaded);
    if (emulator != nullptr) words.insert(words.begin(), emulator);
    const pid_t child = fork();
    if (child == 0) {
      setenv("LD_LIBRARY_PATH", folder_.c_str(), 1);
      std::vector<char*> given;
      for (std::string& word : words) given.push_back(word.data());
      given.push_back(nullptr);
      execv(words.front().c_str(), given.data());
      _exit(127);
    }
    int status = -1;
    waitpid(child, &status, 0);
    return status;
  }

 private:
  std::filesystem::path folder_;
};

TEST_F(InstalledDriver, IsLoadedByItsName) {
  install(cuda().path(), "libcuda.so.1");
  install(hip().path(), "libamdhip64.so.6");
  EXPECT_EQ(open_in_another_process("cuda", nullptr), 0);
  EXPECT_EQ(open_in_another_process("hip", nullptr), 0);
}

TEST_F(InstalledDriver, ComesAfterAnOlderOneThatIsLoaded) {
  install(ST_NO_DRIVER, "libamdhip64.so.7");
  EXPECT_NE(open_in_another_process("hip", nullptr), 0);
  EXPECT_EQ(open_in_another_process("hip", hip().path()), 0);
}

TEST_P(DeviceOpening, AnOrdinalThatIsNoneIsARange) {
  for (const int ordinal : {-1, 2, 1000}) expect_refused(driver.options(ordinal), ST_ERR_RANGE, "the driver has 2");
}

TEST_P(DeviceOpening, AnotherErrorOfTheDriverIsItsOwn) {
  driver.set_init(999);
  expect_refused(driver.options(), ST_ERR_DEVICE, "999");
  driver.set_init(1);
  expect_refused(driver.options(), ST_ERR_DEVICE, driver.is_fake() ? "returned 1, FAKE_INVALID_VALUE" : "returned 1, ");
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

// HIP has a current device and a last error for each thread.
TEST(HipOpening, KeepsTheCurrentDeviceAndTheLastErrorOfTheProgram) {
  hip().reset();
  EXPECT_NE(hip().opened(0), nullptr);  // initializes the driver
  const auto set_device = hip().find<int(int)>("hipSetDevice");
  EXPECT_EQ(set_device(1), 0);
  EXPECT_NE(set_device(99), 0);
  const int error = hip().last_error();
  {
    const DevicePtr device = hip().opened(0);
    const DeviceMemory memory(hip(), device.get(), 100);
  }
  EXPECT_EQ(hip().depth(), 1);
  EXPECT_EQ(hip().last_error(), error);
  EXPECT_EQ(set_device(0), 0);
  hip().find<int()>("hipGetLastError")();
  hip().expect_clean("in the end");
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
