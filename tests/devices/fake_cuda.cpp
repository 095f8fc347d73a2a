// The entry points of CUDA's driver, as far as the library and the tests call them, over the fake machine.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <vector>

#include "fake_gpu.hpp"

using namespace fake;

namespace {

// The current contexts of a thread. A thread that ends with a context of ours has leaked it.
struct Stack {
  std::vector<Context*> contexts;
  ~Stack() {
    if (!contexts.empty()) fault("a thread ended with a context");
  }
};

thread_local Stack stack;

}  // namespace

int fake::current_device() { return stack.contexts.empty() ? -1 : device_of(stack.contexts.back()); }

extern "C" {

int fake_last_error() { return kOk; }

int fake_depth() { return static_cast<int>(stack.contexts.size()); }

int cuInit(unsigned flags) {
  if (const int code = giving_back("cuInit"); code != kOk) return code;
  if (init_code() != kOk) return init_code();
  if (device_count() == 0) return kNoDevice;
  mark_initialized();
  return flags == 0 ? kOk : kInvalidValue;
}

int cuDeviceGetCount(int* count) {
  if (const int code = enter("cuDeviceGetCount"); code != kOk) return code;
  *count = std::max(device_count(), 0);
  return kOk;
}

int cuDeviceGet(int* device, int ordinal) {
  if (const int code = enter("cuDeviceGet"); code != kOk) return code;
  if (ordinal < 0 || ordinal >= device_count()) return kInvalidDevice;
  *device = ordinal;
  return kOk;
}

int cuDeviceGetAttribute(int* value, int attribute, int /*device*/) {
  if (const int code = enter("cuDeviceGetAttribute"); code != kOk) return code;
  constexpr int kHostNumaId = 134;
  if (attribute != kHostNumaId) return kInvalidValue;
  *value = 0;
  return kOk;
}

int cuDevicePrimaryCtxRetain(void** context, int device) {
  if (const int code = enter("cuDevicePrimaryCtxRetain"); code != kOk) return code;
  *context = primary(device);
  return retain(device);
}

int cuDevicePrimaryCtxRelease_v2(int device) {
  const int code = giving_back("cuDevicePrimaryCtxRelease_v2");
  const int own = release(device);
  return code != kOk ? code : own;
}

int cuCtxPushCurrent_v2(void* context) {
  if (const int code = enter("cuCtxPushCurrent_v2"); code != kOk) return code;
  check_context(static_cast<const Context*>(context));
  stack.contexts.push_back(static_cast<Context*>(context));
  return kOk;
}

int cuCtxPopCurrent_v2(void** context) {
  const int code = giving_back("cuCtxPopCurrent_v2");
  if (stack.contexts.empty()) {
    fault("a context was popped that was not pushed");
    return kInvalidContext;
  }
  *context = stack.contexts.back();
  stack.contexts.pop_back();
  return code;
}

int cuGetErrorName(int code, const char** name) {
  *name = name_of(code);
  return *name == nullptr ? kInvalidValue : kOk;
}

int cuStreamCreate(void** stream, unsigned flags) {
  expect_flags(flags, 1, "a stream that waits for the default one");
  const int code = enter("cuStreamCreate");
  return code != kOk ? code : new_stream(reinterpret_cast<Stream**>(stream));
}

int cuStreamDestroy_v2(void* stream) {
  const int code = giving_back("cuStreamDestroy_v2");
  const int own = free_stream(static_cast<Stream*>(stream));
  return code != kOk ? code : own;
}

int cuStreamWaitEvent(void* stream, void* event, unsigned flags) {
  expect_flags(flags, 0, "flags of a wait");
  const int code = enter("cuStreamWaitEvent");
  return code != kOk ? code : wait_for_event(static_cast<Stream*>(stream), static_cast<Event*>(event));
}

int cuStreamSynchronize(void* stream) {
  const int code = enter("cuStreamSynchronize");
  return code != kOk ? code : synchronize(static_cast<Stream*>(stream));
}

int cuEventCreate(void** event, unsigned flags) {
  expect_flags(flags, 3, "an event with a time, or whose waiters spin");
  const int code = enter("cuEventCreate");
  return code != kOk ? code : new_event(reinterpret_cast<Event**>(event));
}

int cuEventDestroy_v2(void* event) {
  const int code = giving_back("cuEventDestroy_v2");
  const int own = free_event(static_cast<Event*>(event));
  return code != kOk ? code : own;
}

int cuEventRecord(void* event, void* stream) {
  const int code = enter("cuEventRecord");
  if (code != kOk) return code;
  // The numbers of the default streams.
  const auto number = reinterpret_cast<std::uintptr_t>(stream);
  return record(static_cast<Event*>(event),
                number == 1 || number == 2 ? default_stream(number == 2) : static_cast<Stream*>(stream));
}

int cuEventQuery(void* event) {
  const int code = enter("cuEventQuery");
  return code != kOk ? code : query(static_cast<Event*>(event));
}

int cuEventSynchronize(void* event) {
  const int code = enter("cuEventSynchronize");
  return code != kOk ? code : synchronize(static_cast<Event*>(event));
}

int cuMemcpyHtoDAsync_v2(std::uintptr_t dst, const void* src, std::size_t bytes, void* stream) {
  const int code = enter("cuMemcpyHtoDAsync_v2");
  return code != kOk ? code : copy(dst, src, bytes, static_cast<Stream*>(stream));
}

int cuMemHostRegister_v2(void* memory, std::size_t bytes, unsigned flags) {
  expect_flags(flags, 1, "memory that is pinned for one context");
  const int code = enter("cuMemHostRegister_v2");
  return code != kOk ? code : pin(memory, bytes);
}

int cuMemHostUnregister(void* memory) {
  const int code = giving_back("cuMemHostUnregister");
  const int own = unpin(memory);
  return code != kOk ? code : own;
}

int cuMemHostAlloc(void** memory, std::size_t bytes, unsigned flags) {
  expect_flags(flags, 1, "memory that is pinned for one context");
  const int code = enter("cuMemHostAlloc");
  return code != kOk ? code : new_pinned(memory, bytes);
}

int cuMemFreeHost(void* memory) {
  const int code = giving_back("cuMemFreeHost");
  const int own = free_pinned(memory);
  return code != kOk ? code : own;
}

int cuMemAlloc_v2(std::uintptr_t* memory, std::size_t bytes) {
  const int code = enter("cuMemAlloc_v2");
  return code != kOk ? code : new_memory(memory, bytes);
}

int cuMemFree_v2(std::uintptr_t memory) {
  const int code = giving_back("cuMemFree_v2");
  const int own = free_memory(memory);
  return code != kOk ? code : own;
}

int cuMemGetAddressRange_v2(std::uintptr_t* begin, std::size_t* bytes, std::uintptr_t address) {
  const int code = enter("cuMemGetAddressRange_v2");
  return code != kOk ? code : range_of_memory(begin, bytes, address);
}

// ---- what the library does not call (more_calls.def) ---------------------------------------------------------------

int cuCtxGetCurrent(void** context) {
  *context = stack.contexts.empty() ? nullptr : stack.contexts.back();
  return kOk;
}

int cuCtxCreate_v2(void** context, unsigned /*flags*/, int device) {
  *context = fake_new_context(device);
  stack.contexts.push_back(static_cast<Context*>(*context));
  return kOk;
}

int cuDeviceGetName(char* name, int bytes, int device) {
  std::snprintf(name, static_cast<std::size_t>(bytes), "fake device %d", device);
  return kOk;
}

int cuMemGetInfo_v2(std::size_t* available, std::size_t* total) {
  *available = *total = std::size_t{1} << 30;
  return kOk;
}

int cuMemcpyDtoH_v2(void* dst, std::uintptr_t src, std::size_t bytes) { return copy_back(dst, src, bytes); }

int cuMemsetD8Async(std::uintptr_t dst, unsigned char value, std::size_t bytes, void* stream) {
  const auto number = reinterpret_cast<std::uintptr_t>(stream);
  fake_fill(number == 1 || number == 2 ? default_stream(number == 2) : stream, reinterpret_cast<void*>(dst), value,
            bytes);
  return kOk;
}
}
