// GPUs: opens NVIDIA's or AMD's driver, and returns it as a table of operations.
//
// The calls that CUDA's driver and HIP's runtime have in common are in gpu.cpp. cuda.cpp and hip.cpp open the drivers and
// make a GPU current on a thread.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "device/ops.hpp"
#include "io/os.hpp"

namespace st::device {

struct DriverOptions {
  std::int32_t ordinal = 0;
  std::uint32_t queues = 1;
  void* context = nullptr;
  const char* library = nullptr;
};

// NVIDIA GPUs are opened through the CUDA driver, because programs would have to ship the CUDA runtime. AMD GPUs are
// opened through the HIP runtime, which is AMD's user-space driver. Both throw Status::unsupported, range or device:
// see st_device_open_cuda.
OwnedOps open_cuda(const DriverOptions& options);
OwnedOps open_hip(const DriverOptions& options);

using DeviceAddress = std::uintptr_t;

struct Calls {
// NOLINTNEXTLINE(bugprone-macro-parentheses): the parameters have theirs
#define ST_DRIVER_CALL(name, cuda, hip, parameters) int(*name) parameters = nullptr;
#include "device/calls.def"
};

// A driver's library, loaded at run time. Error messages name the driver.
class DriverLibrary {
 public:
  // Loads the library at `path`. Without a path, uses the first of `names` that the process has already loaded, or else
  // loads the first that exists. Throws Status::unsupported.
  DriverLibrary(const char* driver, const char* path, std::span<const char* const> names);

  // Throws Status::unsupported if there is no such function.
  template <class Function>
  void find(Function*& function, const char* name) const {
    function = reinterpret_cast<Function*>(address(name));
  }

 private:
  void* address(const char* name) const;

  const char* driver_;
  io::SharedLibrary library_;
};

class Gpu {
 public:
  Gpu() = default;
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;
  virtual ~Gpu() = default;

  // Creates the queues, and returns a table that owns the GPU.
  static OwnedOps ops(std::unique_ptr<Gpu> gpu, std::uint32_t queues);

 protected:
  // enter() makes the GPU current on the calling thread; leave() restores the previous state, which enter() stores in
  // *before.
  virtual int enter(std::intptr_t* before) = 0;
  virtual int leave(std::intptr_t before) = 0;
  virtual const char* error_name(int code) = 0;
  // Called after a failed call.
  virtual void forget_error() {}

  // Converts the caller's stream to the driver's type.
  virtual void* stream_of(void* stream) { return stream; }

  [[noreturn]] void fail_call(int code, const char* what);

  Calls calls;
  int node = -1;  // the NUMA node nearest to the GPU; -1: unknown

 private:
  class Current;

  int noted(int code);
  void open(std::uint32_t queues);
  void close() noexcept;
  int take_event(void** event);
  void give_back(void* event) noexcept;
  std::size_t count_adjacent(std::span<const Copy> copies);
  DeviceAddress end_of_allocation(DeviceAddress address);
  int begin(std::uint32_t queue, std::span<const Copy> copies, void* event);
  void finish(std::uint32_t queue) noexcept;
  int copy(std::uint32_t queue, std::span<const Copy> copies, std::uint64_t* mark);
  int wait_for(void* event);
  int wait(std::uint32_t queue, void* event) noexcept;
  int after(void* stream);
  int alloc(std::uint64_t bytes, void** out);
  void release(void* memory);
  void* new_staging(std::size_t bytes);
  void* new_drivers_memory(std::size_t bytes);
  void free_staging(void* memory);

  std::vector<void*> streams_;  // one for each queue
  std::mutex mutex_;
  std::vector<void*> events_;  // idle events; has capacity for all
  std::size_t event_count_ = 0;
  std::vector<void*> drivers_memory_;  // staging memory that the driver allocated
};

}  // namespace st::device
