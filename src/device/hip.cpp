// HIP: opens AMD's runtime and makes a device current.
// SPDX-License-Identifier: Apache-2.0
#include "device/gpu.hpp"

#include <array>
#include <memory>

#include "base/error.hpp"

namespace st::device {

namespace {

constexpr const char* kHip = "HIP";
constexpr std::array kHipNames{"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "amdhip64_7.dll",
                               "amdhip64_6.dll"};

constexpr int kNoHipDevice = 100;  // hipErrorNoDevice
constexpr std::uintptr_t kLegacyStream = 1;

struct HipCalls {
// NOLINTNEXTLINE(bugprone-macro-parentheses): the parameters have theirs
#define ST_HIP_CALL(type, name, function, parameters) type(*name) parameters = nullptr;
#include "device/calls.def"
};

class Hip final : public Gpu {
 public:
  explicit Hip(const DriverOptions& options) : ordinal_(options.ordinal) {
    if (options.context != nullptr) fail(Status::argument, "HIP: st_device_options.context is for CUDA only");
    const DriverLibrary library(kHip, options.library, kHipNames);
#define ST_DRIVER_CALL(name, cuda, hip, parameters) library.find(calls.name, #hip);
#include "device/calls.def"
#define ST_HIP_CALL(type, name, function, parameters) library.find(hip_.name, #function);
#include "device/calls.def"
    int count = 0;
    int code = hip_.init(0);
    if (code == 0) code = hip_.device_count(&count);
    if (code != 0) forget_error();
    if (code == kNoHipDevice || (code == 0 && count == 0)) fail(Status::unsupported, "HIP: the driver has no device");
    if (code != 0) fail_call(code, "hipInit");
    if (ordinal_ < 0 || ordinal_ >= count) fail(Status::range, "HIP: no device {}; the driver has {}", ordinal_, count);
  }

 private:
  // HIP has no context stack. Each thread has a current device, initially the first.
  int enter(std::intptr_t* before) override {
    int current = 0;
    if (const int code = hip_.get_device(&current); code != 0) return code;
    *before = current;
    return current == ordinal_ ? 0 : hip_.set_device(ordinal_);
  }
  int leave(std::intptr_t before) override {
    return before == ordinal_ ? 0 : hip_.set_device(static_cast<int>(before));
  }
  const char* error_name(int code) override { return hip_.error_name(code); }
  void forget_error() override { hip_.last_error(); }

  // HIP's default stream is null. Only recent versions also have a number for it.
  void* stream_of(void* stream) override {
    return reinterpret_cast<std::uintptr_t>(stream) == kLegacyStream ? nullptr : stream;
  }

  HipCalls hip_;
  const int ordinal_;
};

}  // namespace

OwnedOps open_hip(const DriverOptions& options) { return Gpu::ops(std::make_unique<Hip>(options), options.queues); }

}  // namespace st::device
