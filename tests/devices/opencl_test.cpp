// The example docs/examples/opencl.c fills a device very unlike CUDA's, with any installed OpenCL, such as PoCL.
// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "model.hpp"

extern "C" {
#include "opencl.h"
}

namespace st::test {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

class OpenCl : public testing::Test {
 protected:
  void SetUp() override {
    cl_uint platforms = 0;
    cl_platform_id platform = nullptr;
    if (clGetPlatformIDs(1, &platform, &platforms) != CL_SUCCESS || platforms == 0) {
      GTEST_SKIP() << "there is no OpenCL driver (Debian: pocl-opencl-icd)";
    }
    ASSERT_EQ(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &id, nullptr), CL_SUCCESS);
    cl_int code = 0;
    context = clCreateContext(nullptr, 1, &id, nullptr, nullptr, &code);
    ASSERT_EQ(code, CL_SUCCESS);
    queue = clCreateCommandQueue(context, id, 0, &code);
    ASSERT_EQ(code, CL_SUCCESS);
    st_device_options options = ST_INIT(st_device_options);
    options.staging_bytes = 4 * kMiB;
    st_error err = ST_INIT(st_error);
    ASSERT_EQ(opencl_open(context, id, &options, &device, &opencl, &err), ST_OK) << err.message;
  }
  void TearDown() override {
    st_device_free(device);
    if (queue != nullptr) clReleaseCommandQueue(queue);
    if (context != nullptr) clReleaseContext(context);
  }

  std::vector<char> contents(const void* address, std::size_t bytes) {
    std::size_t offset = 0;
    std::vector<char> got(bytes);
    const cl_mem buffer = opencl_buffer(opencl, address, &offset);
    EXPECT_EQ(clEnqueueReadBuffer(queue, buffer, CL_TRUE, offset, bytes, got.data(), 0, nullptr, nullptr), CL_SUCCESS);
    return got;
  }

  cl_device_id id = nullptr;
  cl_context context = nullptr;
  cl_command_queue queue = nullptr;
  st_device* device = nullptr;
  opencl_device* opencl = nullptr;
};

TEST_F(OpenCl, EveryLayoutArrives) {
  struct Layout {
    std::size_t tensors, bytes;
  };
  for (const Layout& layout : {Layout{160, 60'000}, Layout{2000, 700}, Layout{18'867, 90}, Layout{2, 9'000'000}}) {
    const Model model(std::vector<std::uint64_t>(layout.tensors, layout.bytes));
    st_error err = ST_INIT(st_error);
    void* memory = nullptr;
    ASSERT_EQ(st_device_alloc(device, model.data_size(), &memory, &err), ST_OK) << err.message;
    const PlanPtr plan = model.plan();
    for (std::size_t i = 0; i < model.count(); ++i) {
      // Backwards, so adjacent bytes never become one copy.
      auto* const dst = static_cast<std::byte*>(memory) + (model.count() - 1 - i) * layout.bytes;
      ASSERT_EQ(st_plan_add_device(plan.get(), device, queue, model.tensor(i), nullptr, nullptr, nullptr, dst,
                                   layout.bytes, &err),
                ST_OK)
          << err.message;
    }
    ASSERT_EQ(st_plan_run(plan.get(), nullptr, &err), ST_OK) << err.message;
    const std::vector<char> got = contents(memory, model.data_size());
    for (std::size_t i = 0; i < model.count(); ++i) {
      ASSERT_EQ(std::memcmp(got.data() + (model.count() - 1 - i) * layout.bytes, model.bytes(i), layout.bytes), 0) << i;
    }
    st_device_release(device, memory);
  }
}

TEST_F(OpenCl, SlicesAndTheHostAreFilledInOnePlan) {
  const Model model({700'000}, 1000);
  constexpr std::int64_t kBegin[] = {0, 30};
  constexpr std::int64_t kEnd[] = {INT64_MAX, 77};
  std::vector<char> host(model.data_size());
  std::vector<char> columns(std::size_t{700} * 47);
  ASSERT_EQ(st_tensor_read_slice(model.tensor(0), kBegin, kEnd, nullptr, columns.data(), columns.size(), nullptr),
            ST_OK);
  void* memory = nullptr;
  ASSERT_EQ(st_device_alloc(device, columns.size() + model.data_size(), &memory, nullptr), ST_OK);
  auto* const whole = static_cast<std::byte*>(memory) + columns.size();
  const PlanPtr plan = model.plan();
  ASSERT_EQ(st_plan_add_device(plan.get(), device, nullptr, model.tensor(0), kBegin, kEnd, nullptr, memory,
                               columns.size(), nullptr),
            ST_OK);
  ASSERT_EQ(st_plan_add_device(plan.get(), device, nullptr, model.tensor(0), nullptr, nullptr, nullptr, whole,
                               model.data_size(), nullptr),
            ST_OK);
  ASSERT_EQ(st_plan_add(plan.get(), model.tensor(0), nullptr, nullptr, nullptr, host.data(), host.size(), nullptr),
            ST_OK);
  st_error err = ST_INIT(st_error);
  ASSERT_EQ(st_plan_run(plan.get(), nullptr, &err), ST_OK) << err.message;
  EXPECT_EQ(contents(memory, columns.size()), columns);
  EXPECT_EQ(std::memcmp(contents(whole, model.data_size()).data(), model.data(), model.data_size()), 0);
  EXPECT_EQ(std::memcmp(host.data(), model.data(), model.data_size()), 0);
  st_plan_stats stats = ST_INIT(st_plan_stats);
  st_plan_get_stats(plan.get(), &stats);
  EXPECT_LE(stats.staging_bytes, 4 * kMiB);
  st_device_release(device, memory);
}

TEST_F(OpenCl, AFailureHasItsName) {
  const Model model({100});
  const PlanPtr plan = model.plan();
  char nowhere = 0;
  ASSERT_EQ(st_plan_add_device(plan.get(), device, nullptr, model.tensor(0), nullptr, nullptr, nullptr, &nowhere, 100,
                               nullptr),
            ST_OK);
  st_error err = ST_INIT(st_error);
  EXPECT_EQ(st_plan_run(plan.get(), nullptr, &err), ST_ERR_DEVICE);
  EXPECT_EQ(err.os_error, CL_INVALID_MEM_OBJECT);
  EXPECT_NE(std::string(err.message).find("CL_INVALID_MEM_OBJECT"), std::string::npos) << err.message;
}

}  // namespace
}  // namespace st::test
