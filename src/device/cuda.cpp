// CUDA: opens NVIDIA's driver and makes a context current.
// SPDX-License-Identifier: Apache-2.0
#include "device/gpu.hpp"

#include <array>
#include <memory>

#include "base/error.hpp"

namespace st::device {

namespace {

constexpr const char* kCuda = "CUDA";
constexpr std::array kCudaNames{"libcuda.so.1", "nvcuda.dll"};

// From CUresult and CUdevice_attribute.
constexpr int kStubLibrary = 34;
constexpr int kNoCudaDevice = 100;
constexpr int kDriverMismatch = 803;  // library and kernel driver versions differ
constexpr int kNoCompatibility = 804;
constexpr int kHostNumaId = 134;

struct CudaCalls {
// NOLINTNEXTLINE(bugprone-macro-parentheses): the parameters have theirs
#define ST_CUDA_CALL(name, function, parameters) int(*name) parameters = nullptr;
#include "device/calls.def"
};

class Cuda final : public Gpu {
 public:
  explicit Cuda(const DriverOptions& options) {
    const DriverLibrary library(kCuda, options.library, kCudaNames);
#define ST_DRIVER_CALL(name, cuda, hip, parameters) library.find(calls.name, #cuda);
#include "device/calls.def"
#define ST_CUDA_CALL(name, function, parameters) library.find(cuda_.name, #function);
#include "device/calls.def"
    start();
    choose_device(options.ordinal);
    context_ = options.context;
    if (context_ != nullptr) {
      node = -1;  // the context may belong to another device
      return;
    }
    if (const int code = cuda_.retain_context(&context_, device_); code != 0) fail_call(code, "the primary context");
    retained_ = true;
  }
  Cuda(const Cuda&) = delete;
  Cuda& operator=(const Cuda&) = delete;
  ~Cuda() override {
    if (retained_) cuda_.release_context(device_);
  }

 private:
  void start() {
    const int code = cuda_.init(0);
    switch (code) {
      case 0: return;
      case kStubLibrary: fail(Status::unsupported, "CUDA: the driver's library is a stub for linking only");
      case kNoCudaDevice: fail(Status::unsupported, "CUDA: the driver has no device");
      case kDriverMismatch:
      case kNoCompatibility: fail(Status::unsupported, "CUDA: the driver's library does not match the kernel driver");
      default: fail_call(code, "cuInit");
    }
  }

  void choose_device(int ordinal) {
    int count = 0;
    if (const int code = cuda_.device_count(&count); code != 0) fail_call(code, "counting devices");
    if (count == 0) fail(Status::unsupported, "CUDA: the driver has no device");
    if (ordinal < 0 || ordinal >= count) fail(Status::range, "CUDA: no device {}; the driver has {}", ordinal, count);
    if (const int code = cuda_.device_get(&device_, ordinal); code != 0) fail_call(code, "choosing a device");
    if (cuda_.device_attribute(&node, kHostNumaId, device_) != 0) node = -1;  // unknown to older drivers
  }

  int enter(std::intptr_t* /*before*/) override { return cuda_.push_context(context_); }
  int leave(std::intptr_t /*before*/) override {
    void* own = nullptr;
    return cuda_.pop_context(&own);
  }
  const char* error_name(int code) override {
    const char* name = nullptr;
    return cuda_.error_name(code, &name) == 0 ? name : nullptr;
  }

  CudaCalls cuda_;
  int device_ = 0;
  void* context_ = nullptr;
  bool retained_ = false;
};

}  // namespace

OwnedOps open_cuda(const DriverOptions& options) { return Gpu::ops(std::make_unique<Cuda>(options), options.queues); }

}  // namespace st::device
