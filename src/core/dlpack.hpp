// Exports tensors as DLPack structs: https://dmlc.github.io/dlpack/latest/c_api.html
//
// The structs have the layout of that specification, but our own names.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "format/table.hpp"

namespace st::core::dlpack {

using format::Tensor;

inline constexpr std::uint32_t kMajor = 1;
inline constexpr std::uint32_t kMinor = 1;  // the first version with floats of 8, 6 and 4 bits
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

// The layout that consumers with 64-bit pointers expect.
static_assert(sizeof(void*) != 8 ||
              (sizeof(DlTensor) == 48 && sizeof(Managed) == 64 && sizeof(ManagedVersioned) == 80));
static_assert(sizeof(void*) != 8 || (offsetof(DlTensor, dtype) == 20 && offsetof(ManagedVersioned, tensor) == 32));

enum class Copy : std::uint8_t { if_needed, always, never };

// The file stays open until the struct's deleter is called. The data is copied if there is no view, or if the view is
// not aligned. The unversioned struct has no read-only flag, so it also copies if the view is not writable. Throws
// Status::unsupported if DLPack cannot express the tensor, Status::state if a copy is needed but not allowed, and the
// errors of reading.
ManagedVersioned* export_versioned(const Tensor& tensor, Copy copy);
Managed* export_unversioned(const Tensor& tensor, Copy copy);

}  // namespace st::core::dlpack
