// What the header of a new file is made from, and what no container can hold.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/dtype.hpp"
#include "format/table.hpp"

namespace st::format {

// What a header says of one tensor.
struct NewTensor {
  std::string_view name;
  std::span<const std::uint64_t> shape;
  std::uint64_t begin = 0;  // relative to the first data byte
  std::uint64_t end = 0;    // one past
  Dtype dtype = Dtype::unknown;
};

struct NewHeader {
  std::span<const NewTensor> tensors;      // in data order, packed
  std::span<const MetadataPair> metadata;  // written in this order
  bool has_metadata = false;               // an empty map is not the same as none
  Format format = Format::safetensors;
  std::uint64_t data_alignment = 8;  // a power of two: longer padding moves the data there
  std::uint64_t reserve = 0;         // bytes of white space behind the metadata, for edits in place
};

// Text that is not UTF-8, an unknown dtype, sizes beyond 64 bits and a last byte half full are refused.
void check_metadata(std::string_view key, std::string_view value);
std::uint64_t check_tensor(std::string_view name, Dtype dtype, std::span<const std::uint64_t> shape);  // -> its bytes

}  // namespace st::format
