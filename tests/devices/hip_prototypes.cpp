// Compares the library's prototypes and constants for the HIP runtime with its header. Compiled if the header is
// installed.
// SPDX-License-Identifier: Apache-2.0
#include <hip/hip_runtime_api.h>

#include "device/gpu.hpp"
#include "prototypes.hpp"

namespace st::device {

// For C++, the header also has templates with the names of some functions. These are the functions.
using Malloc = hipError_t (*)(void**, std::size_t);
using HostMalloc = hipError_t (*)(void**, std::size_t, unsigned);

#define ST_DRIVER_CALL(name, cuda, hip, parameters) using hip##_type = int(*) parameters;
#include "device/calls.def"

#define ST_SAME(function) static_assert(kSamePrototype<function##_type, decltype(&::function)>, #function)
ST_SAME(hipStreamCreateWithFlags);
ST_SAME(hipStreamDestroy);
ST_SAME(hipStreamWaitEvent);
ST_SAME(hipStreamSynchronize);
ST_SAME(hipEventCreateWithFlags);
ST_SAME(hipEventDestroy);
ST_SAME(hipEventRecord);
ST_SAME(hipEventSynchronize);
ST_SAME(hipMemcpyHtoDAsync);
ST_SAME(hipHostRegister);
ST_SAME(hipHostUnregister);
ST_SAME(hipHostFree);
ST_SAME(hipFree);
ST_SAME(hipMemGetAddressRange);
static_assert(kSamePrototype<hipMalloc_type, Malloc> && static_cast<Malloc>(&::hipMalloc) != nullptr);
static_assert(kSamePrototype<hipHostMalloc_type, HostMalloc> && static_cast<HostMalloc>(&::hipHostMalloc) != nullptr);

#define ST_HIP_CALL(type, name, runtime, parameters) \
  static_assert(kSamePrototype<type(*) parameters, decltype(&::runtime)>, #runtime);
#include "device/calls.def"

#define ST_MORE_CALL(name, cuda, runtime, parameters) \
  static_assert(kSamePrototype<int(*) parameters, decltype(&::runtime)>, #runtime);
#define ST_MORE_HIP(name, runtime, parameters) \
  static_assert(kSamePrototype<int(*) parameters, decltype(&::runtime)>, #runtime);
#include "more_calls.def"

static_assert(hipErrorNoDevice == 100 && hipErrorOutOfMemory == 2 && hipErrorNotReady == 600);
static_assert(hipStreamNonBlocking == 1 && hipEventBlockingSync == 1 && hipEventDisableTiming == 2);
static_assert(hipHostRegisterPortable == 1 && hipHostMallocPortable == 1);

}  // namespace st::device
