// A tensor as DLPack describes one to any library that takes it: https://dmlc.github.io/dlpack/latest/c_api.html
//
// The structs are laid out as that specification says, under names of our own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "format/table.hpp"

namespace st::core::dlpack {

using format::Tensor;

inline constexpr std::uint32_t kMajor = 1;
inline constexpr std::uint32_t kMinor = 1;  // the first that has floats of 8, 6 and 4 bits
inline constexpr std::int32_t kCpu = 1;
inline constexpr std::uint64_t kReadOnly = 1U << 0;
inline constexpr std::uint64_t kIsCopied = 1U << 1;

struct DataType {
  std::uint8_t code = 0;
  std::uint8_t bits = 0;
  std::uint16_t lanes = 1;
};

struct DlTensor {
  void* data = nullptr;
  std::int32_t device_type = kCpu;
  std::int32_t device_id = 0;
  std::int32_t ndim = 0;
  DataType dtype;
  std::int64_t* shape = nullptr;
  std::int64_t* strides = nullptr;  // in elements
  std::uint64_t byte_offset = 0;
};

struct Managed {
  DlTensor tensor;
  void* owner = nullptr;
  void (*deleter)(Managed* self) = nullptr;
};

struct ManagedVersioned {
  std::uint32_t major = kMajor;
  std::uint32_t minor = kMinor;
  void* owner = nullptr;
  void (*deleter)(ManagedVersioned* self) = nullptr;
  std::uint64_t flags = 0;
  DlTensor tensor;
};

// As of a consumer with 64-bit pointers.
static_assert(sizeof(void*) != 8 ||
              (sizeof(DlTensor) == 48 && sizeof(Managed) == 64 && sizeof(ManagedVersioned) == 80));
static_assert(sizeof(void*) != 8 || (offsetof(DlTensor, dtype) == 20 && offsetof(ManagedVersioned, tensor) == 32));

enum class Copy : std::uint8_t { if_needed, always, never };

// Each is freed by its deleter, and keeps the file open until then. A copy is needed where there is no view, where the
// elements are not aligned, and for the unversioned struct, which cannot say that it is read-only, also where the view
// must not be written to. Throws Status::unsupported for what DLPack cannot express, Status::state if a copy is needed
// and not allowed, and what reading throws.
ManagedVersioned* export_versioned(const Tensor& tensor, Copy copy);
Managed* export_unversioned(const Tensor& tensor, Copy copy);

}  // namespace st::core::dlpack
