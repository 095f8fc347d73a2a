// Devices as C++ programs use them: through safetensors.hpp.
// SPDX-License-Identifier: Apache-2.0
#include <safetensors/safetensors.hpp>

#include <utility>

#include "driver.hpp"
#include "model.hpp"

namespace st::test {
namespace {

TEST(CppDevices, APlanFillsThem) {
  cuda().reset();
  const Model model({30'000, 50'000});
  {
    const auto file = safetensors::SafeOpen(model.path());
    auto opened = safetensors::Device::cuda(cuda().options(1));
    const safetensors::Device device = std::move(opened);
    void* const memory = device.alloc(30'000 + 100);
    safetensors::Plan plan(file);
    EXPECT_EQ(plan.add(file.tensor_at(0), device, memory, 30'000), 0U);
    EXPECT_EQ(plan.add(file.get_slice("t1", {{7, 107}}), device, static_cast<char*>(memory) + 30'000, 100), 1U);

    // A progress function replaces ctx, but not for the other functions.
    std::vector<std::size_t> ready;
    st_read_options options = ST_INIT(st_read_options);
    options.threads = 1;
    options.ctx = &ready;
    options.ready = [](void* ctx, std::size_t i) { static_cast<std::vector<std::size_t>*>(ctx)->push_back(i); };
    std::uint64_t last = 0;
    plan.run([&](std::uint64_t done, std::uint64_t) { return (last = done) <= 30'100; }, options);
    EXPECT_EQ(last, 30'100U);
    EXPECT_EQ(ready.size(), 2U);
    EXPECT_EQ(plan.stats().bytes_copied, 30'100U);

    std::vector<char> got(30'100);
    cuda().read(memory, got.data(), got.size());
    EXPECT_EQ(std::memcmp(got.data(), model.bytes(0), 30'000), 0);
    EXPECT_EQ(std::memcmp(got.data() + 30'000, model.bytes(1) + 7, 100), 0);
    device.release(memory);
  }
  cuda().expect_clean("in the end");
}

TEST(CppDevices, FailuresAreThrown) {
  cuda().reset();
  try {
    safetensors::Device::cuda(9);  // the fake is the driver of this process
    ADD_FAILURE() << "there is no such device";
  } catch (const safetensors::Error& error) {
    EXPECT_EQ(error.status(), ST_ERR_RANGE);
  }
  EXPECT_THROW(safetensors::Device::hip(9), safetensors::Error);
  EXPECT_THROW(safetensors::Device::from_ops(ST_INIT(st_device_ops)), safetensors::Error);
}

}  // namespace
}  // namespace st::test
