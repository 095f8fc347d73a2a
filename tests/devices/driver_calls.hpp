// The functions of a GPU driver, found by their names in its library: what the library calls, and what tests and
// benchmarks call themselves.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <dlfcn.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace st::test {

using DeviceAddress = std::uintptr_t;

// Functions of the other driver, and those that this version of the driver lacks, are null.
struct DriverCalls {
// NOLINTBEGIN(bugprone-macro-parentheses): the parameters have theirs
#define ST_DRIVER_CALL(name, cuda, hip, parameters) int(*name) parameters = nullptr;
#define ST_CUDA_CALL(name, function, parameters) int(*cuda_##name) parameters = nullptr;
#define ST_HIP_CALL(type, name, function, parameters) type(*hip_##name) parameters = nullptr;
#include "device/calls.def"
#define ST_MORE_CALL(name, cuda, hip, parameters) int(*name) parameters = nullptr;
#define ST_MORE_CUDA(name, function, parameters) int(*cuda_##name) parameters = nullptr;
#define ST_MORE_HIP(name, function, parameters) int(*hip_##name) parameters = nullptr;
#include "more_calls.def"
  // NOLINTEND(bugprone-macro-parentheses)
};

// The library stays loaded. Throws std::runtime_error if it cannot be loaded.
inline DriverCalls load_driver(const char* path, bool is_hip) {
  void* const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw std::runtime_error(dlerror());
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(library, name));
  };
  DriverCalls calls;
#define ST_DRIVER_CALL(name, cuda, hip, parameters) find(calls.name, is_hip ? #hip : #cuda);
#define ST_CUDA_CALL(name, function, parameters) find(calls.cuda_##name, #function);
#define ST_HIP_CALL(type, name, function, parameters) find(calls.hip_##name, #function);
#include "device/calls.def"
#define ST_MORE_CALL(name, cuda, hip, parameters) find(calls.name, is_hip ? #hip : #cuda);
#define ST_MORE_CUDA(name, function, parameters) find(calls.cuda_##name, #function);
#define ST_MORE_HIP(name, function, parameters) find(calls.hip_##name, #function);
#include "more_calls.def"
  if ((is_hip ? calls.hip_init : calls.cuda_init) == nullptr) {
    throw std::runtime_error(std::string(path) + " is not a driver of " + (is_hip ? "HIP" : "CUDA"));
  }
  return calls;
}

}  // namespace st::test
