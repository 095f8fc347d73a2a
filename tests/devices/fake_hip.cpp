// The entry points of the HIP runtime, as far as the library and the tests call them, over the fake machine.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <utility>

#include "fake_gpu.hpp"

using namespace fake;

namespace {

// Each thread has a current device, which is the first one until it is set.
struct Chosen {
  int device = 0;
  ~Chosen() {
    if (device != 0) fault("a thread ended with another device than it began with");
  }
};

thread_local Chosen chosen;

// The last error of this thread, until it is queried.
thread_local int last_error = kOk;

int kept(int code) {
  if (code != kOk) last_error = code;
  return code;
}
}  // namespace

int fake::current_device() { return chosen.device; }

extern "C" {

int fake_last_error() { return last_error; }

int fake_depth() { return chosen.device; }

int hipInit(unsigned flags) {
  if (const int code = giving_back("hipInit"); code != kOk) return kept(code);
  if (init_code() != kOk) return kept(init_code());
  mark_initialized();
  return kept(flags == 0 ? kOk : kInvalidValue);
}

int hipGetDeviceCount(int* count) {
  if (const int code = enter("hipGetDeviceCount"); code != kOk) return kept(code);
  *count = std::max(device_count(), 0);
  return kept(device_count() == 0 ? kNoDevice : kOk);
}

int hipGetDevice(int* device) {
  if (const int code = enter("hipGetDevice"); code != kOk) return kept(code);
  *device = chosen.device;
  return kept(kOk);
}

int hipSetDevice(int device) {
  // A call that restores the caller's device does so regardless of its result.
  const int code = device == 0 ? giving_back("hipSetDevice") : enter("hipSetDevice");
  if (code != kOk && device != 0) return kept(code);
  if (device < 0 || device >= device_count()) return kept(kInvalidDevice);
  chosen.device = device;
  return kept(code);
}

int hipGetLastError() { return std::exchange(last_error, kOk); }

const char* hipGetErrorName(int code) { return name_of(code); }

int hipStreamCreateWithFlags(void** stream, unsigned flags) {
  expect_flags(flags, 1, "a stream that waits for the default one");
  const int code = enter("hipStreamCreateWithFlags");
  return kept(code != kOk ? code : new_stream(reinterpret_cast<Stream**>(stream)));
}

int hipStreamDestroy(void* stream) {
  const int code = giving_back("hipStreamDestroy");
  const int own = free_stream(static_cast<Stream*>(stream));
  return kept(code != kOk ? code : own);
}

int hipStreamWaitEvent(void* stream, void* event, unsigned flags) {
  expect_flags(flags, 0, "flags of a wait");
  const int code = enter("hipStreamWaitEvent");
  return kept(code != kOk ? code : wait_for_event(static_cast<Stream*>(stream), static_cast<Event*>(event)));
}

int hipStreamSynchronize(void* stream) {
  const int code = enter("hipStreamSynchronize");
  return kept(code != kOk ? code : synchronize(static_cast<Stream*>(stream)));
}

int hipEventCreateWithFlags(void** event, unsigned flags) {
  expect_flags(flags, 3, "an event with a time, or whose waiters spin");
  const int code = enter("hipEventCreateWithFlags");
  return kept(code != kOk ? code : new_event(reinterpret_cast<Event**>(event)));
}

int hipEventDestroy(void* event) {
  const int code = giving_back("hipEventDestroy");
  const int own = free_event(static_cast<Event*>(event));
  return kept(code != kOk ? code : own);
}

int hipEventRecord(void* event, void* stream) {
  const int code = enter("hipEventRecord");
  if (code != kOk) return kept(code);
  // The default streams: null, and the number of the one per thread. Not all versions have a number for the first.
  const auto number = reinterpret_cast<std::uintptr_t>(stream);
  return record(static_cast<Event*>(event),
                number == 0 || number == 2 ? default_stream(number == 2) : static_cast<Stream*>(stream));
}

int hipEventQuery(void* event) {
  const int code = enter("hipEventQuery");
  return kept(code != kOk ? code : query(static_cast<Event*>(event)));
}

int hipEventSynchronize(void* event) {
  const int code = enter("hipEventSynchronize");
  return kept(code != kOk ? code : synchronize(static_cast<Event*>(event)));
}

int hipMemcpyHtoDAsync(std::uintptr_t dst, const void* src, std::size_t bytes, void* stream) {
  const int code = enter("hipMemcpyHtoDAsync");
  return kept(code != kOk ? code : copy(dst, src, bytes, static_cast<Stream*>(stream)));
}

int hipHostRegister(void* memory, std::size_t bytes, unsigned flags) {
  expect_flags(flags, 1, "memory that is pinned for one context");
  const int code = enter("hipHostRegister");
  return kept(code != kOk ? code : pin(memory, bytes));
}

int hipHostUnregister(void* memory) {
  const int code = giving_back("hipHostUnregister");
  const int own = unpin(memory);
  return kept(code != kOk ? code : own);
}

int hipHostMalloc(void** memory, std::size_t bytes, unsigned flags) {
  expect_flags(flags, 1, "memory that is pinned for one context");
  const int code = enter("hipHostMalloc");
  return kept(code != kOk ? code : new_pinned(memory, bytes));
}

int hipHostFree(void* memory) {
  const int code = giving_back("hipHostFree");
  const int own = free_pinned(memory);
  return kept(code != kOk ? code : own);
}

int hipMalloc(std::uintptr_t* memory, std::size_t bytes) {
  const int code = enter("hipMalloc");
  return kept(code != kOk ? code : new_memory(memory, bytes));
}

int hipFree(std::uintptr_t memory) {
  const int code = giving_back("hipFree");
  const int own = free_memory(memory);
  return kept(code != kOk ? code : own);
}

int hipMemGetAddressRange(std::uintptr_t* begin, std::size_t* bytes, std::uintptr_t address) {
  const int code = enter("hipMemGetAddressRange");
  return kept(code != kOk ? code : range_of_memory(begin, bytes, address));
}

// ---- what the library does not call (more_calls.def) ---------------------------------------------------------------

int hipPeekAtLastError() { return last_error; }

int hipDeviceGetName(char* name, int bytes, int device) {
  std::snprintf(name, static_cast<std::size_t>(bytes), "fake device %d", device);
  return kOk;
}

int hipMemGetInfo(std::size_t* available, std::size_t* total) {
  *available = *total = std::size_t{1} << 30;
  return kOk;
}

int hipMemcpyDtoH(void* dst, std::uintptr_t src, std::size_t bytes) { return kept(copy_back(dst, src, bytes)); }

int hipMemsetD8Async(std::uintptr_t dst, unsigned char value, std::size_t bytes, void* stream) {
  const auto number = reinterpret_cast<std::uintptr_t>(stream);
  fake_fill(number == 0 || number == 2 ? default_stream(number == 2) : stream, reinterpret_cast<void*>(dst), value,
            bytes);
  return kOk;
}
}
