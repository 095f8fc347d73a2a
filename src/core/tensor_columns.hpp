// Tensor information in columns, one array per field, for foreign function interfaces where calls are expensive.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/checkpoint.hpp"

namespace st::core {

// Element i of each column describes tensor i. All columns are in one block of memory.
class TensorColumns {
 public:
  enum class Views : std::uint8_t { none, all };  // `all` may map the file

  TensorColumns(const Checkpoint& file, Views views);
  TensorColumns(TensorColumns&&) = delete;
  ~TensorColumns();

  std::size_t count = 0;
  const char* names = nullptr;                  // each followed by a NUL
  const std::uint64_t* name_offsets = nullptr;  // count + 1
  const std::int32_t* dtypes = nullptr;         // numbers of Dtype
  const std::uint32_t* ranks = nullptr;
  const std::uint64_t* dims = nullptr;         // of all shapes
  const std::uint64_t* dim_offsets = nullptr;  // count + 1
  const std::uint64_t* offsets = nullptr;      // in the shard's file
  const std::uint64_t* sizes = nullptr;        // bytes
  const std::uint32_t* shards = nullptr;
  const void* const* data = nullptr;  // null with Views::none
  const Tensor* const* tensors = nullptr;

 private:
  std::byte* block_ = nullptr;
  std::size_t block_bytes_ = 0;
};

}  // namespace st::core
