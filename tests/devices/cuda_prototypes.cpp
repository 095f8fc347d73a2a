// Compares the library's prototypes and constants for CUDA's driver with cuda.h. Compiled if cuda.h is installed.
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>

#include "device/gpu.hpp"
#include "prototypes.hpp"

#if CUDA_VERSION >= 13000  // drivers still have it
extern "C" CUresult cuCtxCreate_v2(CUcontext*, unsigned, CUdevice);
#endif

namespace st::device {

#define ST_DRIVER_CALL(name, cuda, hip, parameters) \
  static_assert(kSamePrototype<int(*) parameters, decltype(&::cuda)>, #cuda);
#include "device/calls.def"
#define ST_CUDA_CALL(name, driver, parameters) \
  static_assert(kSamePrototype<int(*) parameters, decltype(&::driver)>, #driver);
#include "device/calls.def"

#define ST_MORE_CALL(name, cuda, hip, parameters) \
  static_assert(kSamePrototype<int(*) parameters, decltype(&::cuda)>, #cuda);
#define ST_MORE_CUDA(name, driver, parameters) \
  static_assert(kSamePrototype<int(*) parameters, decltype(&::driver)>, #driver);
#include "more_calls.def"

static_assert(CUDA_ERROR_STUB_LIBRARY == 34 && CUDA_ERROR_NO_DEVICE == 100);
static_assert(CUDA_ERROR_OUT_OF_MEMORY == 2 && CUDA_ERROR_NOT_READY == 600);
static_assert(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH == 803 && CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE == 804);
static_assert(CU_STREAM_NON_BLOCKING == 1 && CU_EVENT_BLOCKING_SYNC == 1 && CU_EVENT_DISABLE_TIMING == 2);
static_assert(CU_MEMHOSTREGISTER_PORTABLE == 1 && CU_MEMHOSTALLOC_PORTABLE == 1);
#if CUDA_VERSION >= 12030
static_assert(CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID == 134);
#endif

}  // namespace st::device
