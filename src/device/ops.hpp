// A device, as the table of functions that a plan needs from a driver.
//
// The table has the functions of st_device_ops; the public header documents each of them. Drivers that the library
// opens itself are such tables too, so a plan treats all devices alike.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

namespace st::device {

struct Copy {
  void* dst = nullptr;  // an address on the device; only the device may access it
  const void* src = nullptr;
  std::size_t bytes = 0;
};

struct Ops {
  void* ctx = nullptr;
  void* (*host_alloc)(void* ctx, std::size_t size) = nullptr;
  void (*host_free)(void* ctx, void* ptr, std::size_t size) = nullptr;
  std::int32_t (*copy)(void* ctx, std::uint32_t queue, const Copy* copies, std::size_t n,
                       std::uint64_t* mark) = nullptr;
  std::int32_t (*wait)(void* ctx, std::uint32_t queue, std::uint64_t mark) = nullptr;
  std::int32_t (*after)(void* ctx, void* stream) = nullptr;
  std::int32_t (*alloc)(void* ctx, std::uint64_t size, void** out) = nullptr;
  void (*release)(void* ctx, void* ptr) = nullptr;
  const char* (*error_name)(void* ctx, std::int32_t code) = nullptr;
  void (*close)(void* ctx) = nullptr;
};

// Runs a cleanup function and swallows its exceptions: it may be the caller's C++ function.
template <class Function>
void ignoring_exceptions(const Function& function) noexcept {
  try {
    function();
  } catch (...) {}
}

// Owns a table, and closes it when destroyed.
class OwnedOps {
 public:
  explicit OwnedOps(const Ops& ops) : ops_(ops) {}
  OwnedOps(OwnedOps&& other) noexcept : ops_(std::exchange(other.ops_, Ops{})) {}
  OwnedOps& operator=(OwnedOps&&) = delete;
  ~OwnedOps() {
    if (ops_.close != nullptr) ignoring_exceptions([this] { ops_.close(ops_.ctx); });
  }

  const Ops* operator->() const { return &ops_; }

 private:
  Ops ops_;
};

}  // namespace st::device
