// A fake driver as a test uses it: loaded by its path, with the functions of fake.hpp.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <safetensors/safetensors.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <ostream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "fake.hpp"

namespace st::test {

struct FreeDevice {
  void operator()(st_device* device) const { st_device_free(device); }
};
using DevicePtr = std::unique_ptr<st_device, FreeDevice>;

using OpenDevice = st_status (*)(const st_device_options*, st_device**, st_error*);

// One of the fake drivers, or the driver of a GPU, watched (watched_driver.cpp). Its functions come from the library at
// this path, which the process loads once. Those that only a fake has are null for a GPU.
class Driver {
  std::string name_;
  std::string path_;
  OpenDevice open_;
  void* library_;

 public:
  Driver(std::string name, const char* path, OpenDevice open_device)
      : name_(std::move(name)), path_(path), open_(open_device), library_(dlopen(path, RTLD_NOW | RTLD_LOCAL)) {
    if (library_ == nullptr) throw std::runtime_error(dlerror());
  }

  template <class Function>
  Function* find(const char* name) const {
    return reinterpret_cast<Function*>(dlsym(library_, name));
  }
#define ST_FAKE(name) decltype(&::fake_##name) name = find<decltype(::fake_##name)>("fake_" #name)
  ST_FAKE(reset);
  ST_FAKE(set_devices);
  ST_FAKE(set_init);
  ST_FAKE(fail_call);
  ST_FAKE(fail_copy);
  ST_FAKE(refuse);
  ST_FAKE(calls);
  ST_FAKE(failed_call);
  ST_FAKE(failures);
  ST_FAKE(fault);
  ST_FAKE(leaks);
  ST_FAKE(pinned);
  ST_FAKE(first_pinned);
  ST_FAKE(most_pinned);
  ST_FAKE(in_flight);
  ST_FAKE(depth);
  ST_FAKE(read);
  ST_FAKE(fill);
  ST_FAKE(break_waits);
  ST_FAKE(drain);
  ST_FAKE(new_context);
  ST_FAKE(allow_only);
  ST_FAKE(default_stream);
  ST_FAKE(copies);
  ST_FAKE(last_error);
  ST_FAKE(new_stream);
  ST_FAKE(free_stream);
#undef ST_FAKE

  bool is_fake() const { return break_waits != nullptr; }
  const std::string& name() const { return name_; }
  const char* path() const { return path_.c_str(); }

  st_device_options options(int ordinal = 0, std::uint64_t staging_bytes = 0) const {
    st_device_options options = ST_INIT(st_device_options);
    options.ordinal = ordinal;
    options.staging_bytes = staging_bytes;
    options.library = path();
    return options;
  }

  st_status open(const st_device_options& options, DevicePtr& out, st_error* err = nullptr) const {
    st_device* device = nullptr;
    const st_status status = open_(&options, &device, err);
    out.reset(device);
    return status;
  }

  DevicePtr opened(int ordinal = 0, std::uint64_t staging_bytes = 0) const {
    DevicePtr device;
    st_error err = ST_INIT(st_error);
    EXPECT_EQ(open(options(ordinal, staging_bytes), device, &err), ST_OK) << err.message;
    return device;
  }

  // To be called when nothing of a test is left.
  void expect_clean(const std::string& when) const {
    EXPECT_EQ(fault() == nullptr ? "" : fault(), std::string()) << when;
    EXPECT_EQ(leaks(), 0) << when;
    EXPECT_EQ(depth(), 0) << when;
    EXPECT_EQ(last_error(), 0) << when;
  }
};

// Shows the driver in the names of tests.
inline void PrintTo(const Driver* driver, std::ostream* out) { *out << driver->name(); }

// Another library may take the place of the fake that was built.
inline const char* path_or(const char* variable, const char* built) {
  const char* const named = std::getenv(variable);
  return named == nullptr || *named == '\0' ? built : named;
}

inline const Driver& cuda() {
  static const Driver only("CUDA", path_or("ST_FAKE_CUDA", ST_FAKE_CUDA), st_device_open_cuda);
  return only;
}
inline const Driver& hip() {
  static const Driver only("HIP", path_or("ST_FAKE_HIP", ST_FAKE_HIP), st_device_open_hip);
  return only;
}

// Memory of a device, and its contents.
class DeviceMemory {
 public:
  DeviceMemory(const Driver& driver, const st_device* device, std::size_t bytes)
      : driver_(driver), device_(device), bytes_(bytes) {
    st_error err = ST_INIT(st_error);
    void* memory = nullptr;
    if (st_device_alloc(device, bytes, &memory, &err) != ST_OK) throw std::runtime_error(err.message);
    memory_ = static_cast<std::byte*>(memory);
  }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  ~DeviceMemory() { st_device_release(device_, memory_); }

  std::byte* at(std::size_t offset) const { return memory_ + offset; }
  std::vector<std::byte> contents() const {
    std::vector<std::byte> bytes(bytes_);
    driver_.read(memory_, bytes.data(), bytes.size());
    return bytes;
  }

 private:
  const Driver& driver_;
  const st_device* device_;
  std::size_t bytes_;
  std::byte* memory_ = nullptr;
};

}  // namespace st::test
