// The entry points of the HIP runtime, as far as the library calls them, over the fake machine.
// SPDX-License-Identifier: Apache-2.0
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

}  // namespace

int fake::current_device() { return chosen.device; }

extern "C" {

int fake_depth() { return chosen.device; }

int hipInit(unsigned flags) {
  if (const int code = giving_back("hipInit"); code != kOk) return code;
  if (init_code() != kOk) return init_code();
  mark_initialized();
  return flags == 0 ? kOk : kInvalidValue;
}

int hipGetDeviceCount(int* count) {
  if (const int code = enter("hipGetDeviceCount"); code != kOk) return code;
  *count = device_count();
  return *count == 0 ? kNoDevice : kOk;
}

int hipGetDevice(int* device) {
  if (const int code = enter("hipGetDevice"); code != kOk) return code;
  *device = chosen.device;
  return kOk;
}

int hipSetDevice(int device) {
  // A call that gives the caller's device back does so whatever it returns.
  const int code = device == 0 ? giving_back("hipSetDevice") : enter("hipSetDevice");
  if (code != kOk && device != 0) return code;
  if (device < 0 || device >= device_count()) return kInvalidDevice;
  chosen.device = device;
  return code;
}

int hipGetLastError() { return kOk; }

const char* hipGetErrorName(int code) { return name_of(code); }

int hipStreamCreateWithFlags(void** stream, unsigned /*flags*/) {
  const int code = enter("hipStreamCreateWithFlags");
  return code != kOk ? code : new_stream(reinterpret_cast<Stream**>(stream));
}

int hipStreamDestroy(void* stream) {
  const int code = giving_back("hipStreamDestroy");
  const int own = free_stream(static_cast<Stream*>(stream));
  return code != kOk ? code : own;
}

int hipStreamWaitEvent(void* stream, void* event, unsigned /*flags*/) {
  const int code = enter("hipStreamWaitEvent");
  return code != kOk ? code : wait_for_event(static_cast<Stream*>(stream), static_cast<Event*>(event));
}

int hipStreamSynchronize(void* stream) {
  const int code = enter("hipStreamSynchronize");
  return code != kOk ? code : synchronize(static_cast<Stream*>(stream));
}

int hipEventCreateWithFlags(void** event, unsigned /*flags*/) {
  const int code = enter("hipEventCreateWithFlags");
  return code != kOk ? code : new_event(reinterpret_cast<Event**>(event));
}

int hipEventDestroy(void* event) {
  const int code = giving_back("hipEventDestroy");
  const int own = free_event(static_cast<Event*>(event));
  return code != kOk ? code : own;
}

int hipEventRecord(void* event, void* stream) {
  const int code = enter("hipEventRecord");
  return code != kOk ? code : record(static_cast<Event*>(event), static_cast<Stream*>(stream));
}

int hipEventSynchronize(void* event) {
  const int code = enter("hipEventSynchronize");
  return code != kOk ? code : synchronize(static_cast<Event*>(event));
}

int hipMemcpyHtoDAsync(std::uintptr_t dst, const void* src, std::size_t bytes, void* stream) {
  const int code = enter("hipMemcpyHtoDAsync");
  return code != kOk ? code : copy(dst, src, bytes, static_cast<Stream*>(stream));
}

int hipHostRegister(void* memory, std::size_t bytes, unsigned /*flags*/) {
  const int code = enter("hipHostRegister");
  return code != kOk ? code : pin(memory, bytes);
}

int hipHostUnregister(void* memory) {
  const int code = giving_back("hipHostUnregister");
  const int own = unpin(memory);
  return code != kOk ? code : own;
}

int hipHostMalloc(void** memory, std::size_t bytes, unsigned /*flags*/) {
  const int code = enter("hipHostMalloc");
  return code != kOk ? code : new_pinned(memory, bytes);
}

int hipHostFree(void* memory) {
  const int code = giving_back("hipHostFree");
  const int own = free_pinned(memory);
  return code != kOk ? code : own;
}

int hipMalloc(std::uintptr_t* memory, std::size_t bytes) {
  const int code = enter("hipMalloc");
  return code != kOk ? code : new_memory(memory, bytes);
}

int hipFree(std::uintptr_t memory) {
  const int code = giving_back("hipFree");
  const int own = free_memory(memory);
  return code != kOk ? code : own;
}
}
