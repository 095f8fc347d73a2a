// A GPU behind a driver of CUDA's kind: its table, made of the calls that CUDA's driver and HIP's runtime have in common.
//
// device/cuda.cpp and device/hip.cpp open the drivers, and say how one makes a device current on a thread.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "device/table.hpp"

namespace st::device {

struct DriverOptions {
  std::int32_t ordinal = 0;
  std::uint32_t queues = 1;
  void* context = nullptr;
  const char* library = nullptr;
};

using DeviceAddress = std::uintptr_t;

struct Calls {
// NOLINTNEXTLINE(bugprone-macro-parentheses): the parameters have theirs
#define ST_DRIVER_CALL(name, cuda, hip, parameters) int(*name) parameters = nullptr;
#include "device/calls.def"
#undef ST_DRIVER_CALL
};

class Gpu {
 public:
  Gpu() = default;
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;
  virtual ~Gpu() = default;

  // Hands the GPU over to a table with so many queues.
  static OwnedTable table(std::unique_ptr<Gpu> gpu, std::uint32_t queues);

 protected:
  // Makes the GPU current on the calling thread, and then again what was current before. *before is the driver's own.
  virtual int enter(std::intptr_t* before) = 0;
  virtual int leave(std::intptr_t before) = 0;
  virtual const char* error_name(int code) = 0;
  // Called after a call has failed.
  virtual void forget_error() {}

  // The driver's own name of a stream that the caller gave.
  virtual void* stream_of(void* stream) { return stream; }

  [[noreturn]] void fail_call(int code, const char* what);

  Calls calls;
  int node = -1;  // of the host's memory that is nearest to the GPU; -1: not known

 private:
  class Current;

  int noted(int code);
  void open(std::uint32_t queues);
  void close() noexcept;
  int take_event(void** event);
  void give_back(void* event) noexcept;
  std::size_t count_neighbours(std::span<const Copy> copies);
  DeviceAddress end_of_allocation(DeviceAddress address);
  int begin(std::uint32_t queue, std::span<const Copy> copies, void* event);
  void finish(std::uint32_t queue) noexcept;
  int copy(std::uint32_t queue, std::span<const Copy> copies, std::uint64_t* mark);
  int wait(std::uint32_t queue, void* event) noexcept;
  int after(void* stream);
  int alloc(std::uint64_t bytes, void** out);
  void release(void* memory);
  void* new_staging(std::size_t bytes);
  void* new_drivers_memory(std::size_t bytes);
  void free_staging(void* memory);

  std::vector<void*> streams_;  // one for each queue
  std::mutex mutex_;
  std::vector<void*> events_;  // not in use; there is room for all
  std::size_t event_count_ = 0;
  std::vector<void*> drivers_memory_;  // staging memory that the driver allocated
};

}  // namespace st::device
