// A driver between the library and a real one: it passes every call on, counts what is not released, and makes calls
// fail on request. With it, the tests that are written for the fake drivers run on a GPU.
//
// It exports what a fake driver exports (fake.hpp), except what only a fake can do: copies that fail later, waits that
// return too early, and a pace. Like a fake it shows two devices; the second may be the first one again. It is compiled
// once for each driver. ST_REAL_CUDA and ST_REAL_HIP name the real library, which may also be a fake.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iterator>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "driver_calls.hpp"
#include "fake.hpp"

#if ST_WATCHED_HIP
#define ST_NAME(cuda, hip) hip
#else
#define ST_NAME(cuda, hip) cuda
#endif

namespace {

using st::test::DeviceAddress;
using st::test::DriverCalls;

constexpr bool kIsHip = ST_WATCHED_HIP != 0;
constexpr int kDevices = 2;
constexpr int kNoDevice = 100;
constexpr int kInvalidDevice = 101;
constexpr int kNotReady = 600;

const DriverCalls& real() {
  static const DriverCalls calls = [] {
    const char* const variable = kIsHip ? "ST_REAL_HIP" : "ST_REAL_CUDA";
    const char* const path = std::getenv(variable);
    try {
      return st::test::load_driver(path == nullptr ? "" : path, kIsHip);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s: %s\n", variable, error.what());
      std::abort();
    }
  }();
  return calls;
}

// Where a handle belongs: a context of CUDA, or a device of HIP.
struct Place {
  void* context = nullptr;
  int device = 0;
};

struct Memory {
  std::size_t bytes = 0;
  Place place;
};

struct Stream {
  Place place;
  void* last_copy = nullptr;  // an event after it; null: there was none
};

struct Watch {
  std::mutex mutex;
  int devices = kDevices;
  int init = 0;
  std::int64_t calls = 0;
  std::int64_t failing = -1;
  int failing_code = 0;
  const char* failed = nullptr;
  int failures = 0;
  std::map<std::string, int> refused;
  std::string fault;
  const void* only = nullptr;
  int retained = 0;
  std::int64_t copies = 0;
  std::map<void*, Stream> streams;
  std::set<void*> events;
  std::map<void*, std::size_t> pinned;
  std::size_t pinned_bytes = 0;
  std::size_t most_pinned = 0;
  std::map<DeviceAddress, Memory> memory;
  std::map<int, void*> primaries;  // retained until the process ends, because creating one takes long
};

Watch& watch() {
  static Watch* const only = new Watch;  // never destroyed: threads may still use it while the program exits
  return *only;
}

using Lock = std::lock_guard<std::mutex>;

void note(const std::string& what) {
  const Lock lock(watch().mutex);
  if (watch().fault.empty()) watch().fault = what;
}

// No test makes the driver itself fail.
int expected(const char* name, int code) {
  if (code != 0) note(std::string(name) + " of the driver returned " + std::to_string(code));
  return code;
}

thread_local int injected = 0;  // HIP's last error, if a test made the call fail

// Counts a call. Returns the code that it must return, or 0.
int enter(const char* name) {
  Watch& w = watch();
  const Lock lock(w.mutex);
  const std::int64_t number = w.calls++;
  const auto refused = w.refused.find(name);
  if (number != w.failing && refused == w.refused.end()) return 0;
  w.failed = name;
  ++w.failures;
  injected = refused != w.refused.end() ? refused->second : w.failing_code;
  return injected;
}

int real_device(int ordinal) {
  static const int count = [] {
    int found = 0;
    kIsHip ? real().hip_device_count(&found) : real().cuda_device_count(&found);
    return std::max(found, 1);
  }();
  return ordinal % count;
}

// How many contexts this thread has pushed. A thread that ends with one of them has leaked it.
struct Pushed {
  int contexts = 0;
  ~Pushed() {
    if (contexts != 0) note("a thread ended with a context");
  }
};
thread_local Pushed pushed;
thread_local int chosen = 0;  // HIP's current device, as the caller counts devices

Place here() {
  Place place;
  if (kIsHip) {
    place.device = real_device(chosen);
  } else {
    real().cuda_current_context(&place.context);
  }
  return place;
}

// Makes a place current, without the counts.
class At {
 public:
  explicit At(const Place& place) {
    if (kIsHip) {
      real().hip_set_device(place.device);
    } else {
      real().cuda_push_context(place.context);
    }
  }
  At(const At&) = delete;
  At& operator=(const At&) = delete;
  ~At() {
    if (kIsHip) {
      real().hip_set_device(real_device(chosen));
    } else {
      void* own = nullptr;
      real().cuda_pop_context(&own);
    }
  }
};

Place primary(int ordinal) {
  Place place;
  place.device = real_device(ordinal);
  if (kIsHip) return place;
  const Lock lock(watch().mutex);
  void*& context = watch().primaries[place.device];
  if (context == nullptr) real().cuda_retain_context(&context, place.device);
  place.context = context;
  return place;
}

// Called where the stream's context is current.
int destroy_stream(void* stream) {
  void* event = nullptr;
  {
    const Lock lock(watch().mutex);
    const auto found = watch().streams.find(stream);
    if (found != watch().streams.end()) {
      event = found->second.last_copy;
      watch().streams.erase(found);
    }
  }
  const int code = expected("the end of a stream", real().stream_destroy(stream));
  if (event != nullptr) real().event_destroy(event);
  return code;
}

void add_pinned(void* memory, std::size_t bytes) {
  Watch& w = watch();
  const Lock lock(w.mutex);
  w.pinned[memory] = bytes;
  w.pinned_bytes += bytes;
  w.most_pinned = std::max(w.most_pinned, w.pinned_bytes);
}

void remove_pinned(void* memory) {
  Watch& w = watch();
  const Lock lock(w.mutex);
  const auto found = w.pinned.find(memory);
  if (found == w.pinned.end()) return;  // the driver's answer is noted
  w.pinned_bytes -= found->second;
  w.pinned.erase(found);
}

}  // namespace

extern "C" {

#if ST_WATCHED_HIP

int hipInit(unsigned flags) {
  if (const int code = enter("hipInit"); code != 0) return code;
  if (watch().init != 0) return watch().init;
  return expected("hipInit", real().hip_init(flags));
}

int hipGetDeviceCount(int* count) {
  if (const int code = enter("hipGetDeviceCount"); code != 0) return code;
  *count = std::max(watch().devices, 0);
  return watch().devices == 0 ? kNoDevice : 0;
}

int hipGetDevice(int* device) {
  if (const int code = enter("hipGetDevice"); code != 0) return code;
  *device = chosen;
  return 0;
}

int hipSetDevice(int device) {
  // A call that restores the caller's device does so regardless of its result.
  const int code = enter("hipSetDevice");
  if (code != 0 && device != 0) return code;
  if (device < 0 || device >= watch().devices) return kInvalidDevice;
  chosen = device;
  const int own = expected("hipSetDevice", real().hip_set_device(real_device(device)));
  return code != 0 ? code : own;
}

int hipGetLastError() {
  const int own = real().hip_last_error();
  const int code = std::exchange(injected, 0);
  return code != 0 ? code : own;
}

const char* hipGetErrorName(int code) { return real().hip_error_name(code); }

int fake_last_error() { return injected != 0 ? injected : real().hip_peek_at_last_error(); }
int fake_depth() { return chosen; }

#else

int cuInit(unsigned flags) {
  if (const int code = enter("cuInit"); code != 0) return code;
  if (watch().init != 0) return watch().init;
  if (watch().devices == 0) return kNoDevice;
  return expected("cuInit", real().cuda_init(flags));
}

int cuDeviceGetCount(int* count) {
  if (const int code = enter("cuDeviceGetCount"); code != 0) return code;
  *count = std::max(watch().devices, 0);
  return 0;
}

int cuDeviceGet(int* device, int ordinal) {
  if (const int code = enter("cuDeviceGet"); code != 0) return code;
  if (ordinal < 0 || ordinal >= watch().devices) return kInvalidDevice;
  *device = ordinal;
  return 0;
}

int cuDeviceGetAttribute(int* value, int attribute, int device) {
  if (const int code = enter("cuDeviceGetAttribute"); code != 0) return code;
  return real().cuda_device_attribute(value, attribute, real_device(device));  // older drivers do not know it
}

int cuDevicePrimaryCtxRetain(void** context, int device) {
  if (const int code = enter("cuDevicePrimaryCtxRetain"); code != 0) return code;
  primary(device);
  const int code = expected("cuDevicePrimaryCtxRetain", real().cuda_retain_context(context, real_device(device)));
  const Lock lock(watch().mutex);
  if (code == 0) ++watch().retained;
  return code;
}

int cuDevicePrimaryCtxRelease_v2(int device) {
  const int code = enter("cuDevicePrimaryCtxRelease_v2");
  const int own = expected("cuDevicePrimaryCtxRelease_v2", real().cuda_release_context(real_device(device)));
  const Lock lock(watch().mutex);
  if (own == 0) --watch().retained;
  return code != 0 ? code : own;
}

int cuCtxPushCurrent_v2(void* context) {
  if (const int code = enter("cuCtxPushCurrent_v2"); code != 0) return code;
  if (watch().only != nullptr && watch().only != context) note("another context than the caller's was made current");
  const int code = expected("cuCtxPushCurrent_v2", real().cuda_push_context(context));
  if (code == 0) ++pushed.contexts;
  return code;
}

int cuCtxPopCurrent_v2(void** context) {
  const int code = enter("cuCtxPopCurrent_v2");
  if (pushed.contexts == 0) note("a context was popped that was not pushed");
  const int own = expected("cuCtxPopCurrent_v2", real().cuda_pop_context(context));
  if (own == 0) --pushed.contexts;
  return code != 0 ? code : own;
}

int cuGetErrorName(int code, const char** name) { return real().cuda_error_name(code, name); }

int fake_last_error() { return 0; }
int fake_depth() { return pushed.contexts; }

void* fake_new_context(int ordinal) {
  void* context = nullptr;
  if (expected("cuCtxCreate", real().cuda_new_context(&context, 0, real_device(ordinal))) != 0) return nullptr;
  void* own = nullptr;
  real().cuda_pop_context(&own);
  return context;
}

void fake_allow_only(const void* context) { watch().only = context; }

#endif

int ST_NAME(cuStreamCreate, hipStreamCreateWithFlags)(void** stream, unsigned flags) {
  constexpr const char* kName = kIsHip ? "hipStreamCreateWithFlags" : "cuStreamCreate";
  if (const int code = enter(kName); code != 0) return code;
  const int code = expected(kName, real().stream_create(stream, flags));
  const Place place = here();
  const Lock lock(watch().mutex);
  if (code == 0) watch().streams[*stream] = {place};
  return code;
}

int ST_NAME(cuStreamDestroy_v2, hipStreamDestroy)(void* stream) {
  constexpr const char* kName = kIsHip ? "hipStreamDestroy" : "cuStreamDestroy_v2";
  const int code = enter(kName);
  const int own = destroy_stream(stream);
  return code != 0 ? code : own;
}

int ST_NAME(cuStreamWaitEvent, hipStreamWaitEvent)(void* stream, void* event, unsigned flags) {
  constexpr const char* kName = kIsHip ? "hipStreamWaitEvent" : "cuStreamWaitEvent";
  if (const int code = enter(kName); code != 0) return code;
  return expected(kName, real().stream_wait(stream, event, flags));
}

int ST_NAME(cuStreamSynchronize, hipStreamSynchronize)(void* stream) {
  constexpr const char* kName = kIsHip ? "hipStreamSynchronize" : "cuStreamSynchronize";
  if (const int code = enter(kName); code != 0) return code;
  return expected(kName, real().stream_synchronize(stream));
}

int ST_NAME(cuEventCreate, hipEventCreateWithFlags)(void** event, unsigned flags) {
  constexpr const char* kName = kIsHip ? "hipEventCreateWithFlags" : "cuEventCreate";
  if (const int code = enter(kName); code != 0) return code;
  const int code = expected(kName, real().event_create(event, flags));
  const Lock lock(watch().mutex);
  if (code == 0) watch().events.insert(*event);
  return code;
}

int ST_NAME(cuEventDestroy_v2, hipEventDestroy)(void* event) {
  constexpr const char* kName = kIsHip ? "hipEventDestroy" : "cuEventDestroy_v2";
  const int code = enter(kName);
  const int own = expected(kName, real().event_destroy(event));
  const Lock lock(watch().mutex);
  if (own == 0) watch().events.erase(event);
  return code != 0 ? code : own;
}

int ST_NAME(cuEventRecord, hipEventRecord)(void* event, void* stream) {
  constexpr const char* kName = kIsHip ? "hipEventRecord" : "cuEventRecord";
  if (const int code = enter(kName); code != 0) return code;
  return expected(kName, real().event_record(event, stream));
}

int ST_NAME(cuEventQuery, hipEventQuery)(void* event) {
  constexpr const char* kName = kIsHip ? "hipEventQuery" : "cuEventQuery";
  if (const int code = enter(kName); code != 0) return code;
  const int code = real().event_query(event);
  return code == kNotReady ? code : expected(kName, code);
}

int ST_NAME(cuEventSynchronize, hipEventSynchronize)(void* event) {
  constexpr const char* kName = kIsHip ? "hipEventSynchronize" : "cuEventSynchronize";
  if (const int code = enter(kName); code != 0) return code;
  return expected(kName, real().event_synchronize(event));
}

int ST_NAME(cuMemcpyHtoDAsync_v2, hipMemcpyHtoDAsync)(DeviceAddress dst, const void* src, std::size_t bytes,
                                                      void* stream) {
  constexpr const char* kName = kIsHip ? "hipMemcpyHtoDAsync" : "cuMemcpyHtoDAsync_v2";
  if (const int code = enter(kName); code != 0) return code;
  const int code = expected(kName, real().copy(dst, src, bytes, stream));
  const Lock lock(watch().mutex);
  ++watch().copies;
  void*& last = watch().streams[stream].last_copy;
  constexpr unsigned kFlags = 3;  // as the library's events
  if (last == nullptr) real().event_create(&last, kFlags);
  real().event_record(last, stream);
  return code;
}

int ST_NAME(cuMemHostRegister_v2, hipHostRegister)(void* memory, std::size_t bytes, unsigned flags) {
  constexpr const char* kName = kIsHip ? "hipHostRegister" : "cuMemHostRegister_v2";
  if (const int code = enter(kName); code != 0) return code;
  const int code = expected(kName, real().host_register(memory, bytes, flags));
  if (code == 0) add_pinned(memory, bytes);
  return code;
}

int ST_NAME(cuMemHostUnregister, hipHostUnregister)(void* memory) {
  constexpr const char* kName = kIsHip ? "hipHostUnregister" : "cuMemHostUnregister";
  const int code = enter(kName);
  const int own = expected(kName, real().host_unregister(memory));
  if (own == 0) remove_pinned(memory);
  return code != 0 ? code : own;
}

int ST_NAME(cuMemHostAlloc, hipHostMalloc)(void** memory, std::size_t bytes, unsigned flags) {
  constexpr const char* kName = kIsHip ? "hipHostMalloc" : "cuMemHostAlloc";
  if (const int code = enter(kName); code != 0) return code;
  const int code = expected(kName, real().host_alloc(memory, bytes, flags));
  if (code == 0) add_pinned(*memory, bytes);
  return code;
}

int ST_NAME(cuMemFreeHost, hipHostFree)(void* memory) {
  constexpr const char* kName = kIsHip ? "hipHostFree" : "cuMemFreeHost";
  const int code = enter(kName);
  const int own = expected(kName, real().host_free(memory));
  if (own == 0) remove_pinned(memory);
  return code != 0 ? code : own;
}

int ST_NAME(cuMemAlloc_v2, hipMalloc)(DeviceAddress* memory, std::size_t bytes) {
  constexpr const char* kName = kIsHip ? "hipMalloc" : "cuMemAlloc_v2";
  if (const int code = enter(kName); code != 0) return code;
  const int code = expected(kName, real().mem_alloc(memory, bytes));
  const Place place = here();
  const Lock lock(watch().mutex);
  if (code == 0) watch().memory[*memory] = {bytes, place};
  return code;
}

int ST_NAME(cuMemFree_v2, hipFree)(DeviceAddress memory) {
  constexpr const char* kName = kIsHip ? "hipFree" : "cuMemFree_v2";
  const int code = enter(kName);
  const int own = expected(kName, real().mem_free(memory));
  const Lock lock(watch().mutex);
  if (own == 0) watch().memory.erase(memory);
  return code != 0 ? code : own;
}

int ST_NAME(cuMemGetAddressRange_v2, hipMemGetAddressRange)(DeviceAddress* begin, std::size_t* bytes,
                                                            DeviceAddress address) {
  constexpr const char* kName = kIsHip ? "hipMemGetAddressRange" : "cuMemGetAddressRange_v2";
  if (const int code = enter(kName); code != 0) return code;
  return expected(kName, real().mem_range(begin, bytes, address));
}

// ---- what the tests call -------------------------------------------------------------------------------------------

void fake_reset() {
  Watch& w = watch();
  const Lock lock(w.mutex);
  w.devices = kDevices;
  w.init = 0;
  w.calls = 0;
  w.failing = -1;
  w.failed = nullptr;
  w.failures = 0;
  w.refused.clear();
  w.fault.clear();
  w.only = nullptr;
  w.copies = 0;
  w.most_pinned = w.pinned_bytes;
}

void fake_set_devices(int count) { watch().devices = count; }
void fake_set_init(int code) { watch().init = code; }

void fake_fail_call(std::int64_t nth, int code) {
  Watch& w = watch();
  const Lock lock(w.mutex);
  w.calls = 0;
  w.failing = nth;
  w.failing_code = code;
  w.failed = nullptr;
}

void fake_refuse(const char* name, int code) {
  const Lock lock(watch().mutex);
  watch().refused[name] = code;
}

std::int64_t fake_calls() {
  const Lock lock(watch().mutex);
  return watch().calls;
}

const char* fake_failed_call() {
  const Lock lock(watch().mutex);
  return watch().failed;
}

int fake_failures() {
  const Lock lock(watch().mutex);
  return watch().failures;
}

const char* fake_fault() {
  const Lock lock(watch().mutex);
  return watch().fault.empty() ? nullptr : watch().fault.c_str();
}

int fake_leaks() {
  Watch& w = watch();
  const Lock lock(w.mutex);
  return w.retained + static_cast<int>(w.streams.size() + w.events.size() + w.pinned.size() + w.memory.size());
}

std::size_t fake_pinned() {
  const Lock lock(watch().mutex);
  return watch().pinned_bytes;
}

const void* fake_first_pinned() {
  const Lock lock(watch().mutex);
  return watch().pinned.empty() ? nullptr : watch().pinned.begin()->first;
}

std::size_t fake_most_pinned() {
  const Lock lock(watch().mutex);
  return watch().most_pinned;
}

std::int64_t fake_copies() {
  const Lock lock(watch().mutex);
  return watch().copies;
}

// Counts streams with copies in flight.
std::int64_t fake_in_flight() {
  const Lock lock(watch().mutex);
  return std::count_if(watch().streams.begin(), watch().streams.end(), [](const auto& one) {
    if (one.second.last_copy == nullptr) return false;
    const At at(one.second.place);
    if (real().event_query(one.second.last_copy) != kNotReady) return false;
    if (kIsHip) real().hip_last_error();  // it may keep this answer as an error
    return true;
  });
}

void fake_read(const void* device, void* to, std::size_t bytes) {
  const auto address = reinterpret_cast<DeviceAddress>(device);
  Place place;
  {
    const Lock lock(watch().mutex);
    const auto after = watch().memory.upper_bound(address);
    if (after == watch().memory.begin()) std::abort();
    place = std::prev(after)->second.place;
  }
  const At at(place);
  expected("a copy back", real().copy_back(to, address, bytes));
}

// The stream first sleeps, so the memory is filled as late as a fake fills it.
void fake_fill(void* stream, void* device, int value, std::size_t bytes) {
  const auto address = reinterpret_cast<DeviceAddress>(device);
  Place place;
  {
    const Lock lock(watch().mutex);
    place = std::prev(watch().memory.upper_bound(address))->second.place;
  }
  const At at(place);
  if (real().call_host != nullptr) {
    const auto sleep = [](void*) { std::this_thread::sleep_for(std::chrono::milliseconds(30)); };
    expected("a function in a stream", real().call_host(stream, sleep, nullptr));
  }
  expected("a fill", real().fill(address, static_cast<unsigned char>(value), bytes, stream));
}

// The numbers of the default streams. HIP's first one is null.
void* fake_default_stream(int /*ordinal*/, int per_thread) {
  if (kIsHip && per_thread == 0) return nullptr;
  return reinterpret_cast<void*>(std::uintptr_t{per_thread != 0 ? 2U : 1U});
}

void* fake_new_stream(int ordinal) {
  const Place place = primary(ordinal);
  const At at(place);
  void* stream = nullptr;
  if (expected("a new stream", real().stream_create(&stream, 1)) != 0) return nullptr;
  const Lock lock(watch().mutex);
  watch().streams[stream] = {place};
  return stream;
}

void fake_free_stream(void* stream) {
  const Place place = [&] {
    const Lock lock(watch().mutex);
    return watch().streams[stream].place;
  }();
  const At at(place);
  destroy_stream(stream);
}
}
