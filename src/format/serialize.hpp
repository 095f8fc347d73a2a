// The first bytes of a new file: its length and its header, as the reference writes them (docs/format.md 1.5).
//
// Which layout it is, is one value of NewHeader. What a layout cannot hold, how it orders tensors and how it spells
// them is known here and nowhere above. No system call: the writer puts these bytes in front of the data.
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

inline constexpr std::uint64_t kMaxAlignment = std::uint64_t{1} << 20;

// What every layout refuses: text that is not UTF-8, an unknown dtype, sizes beyond 64 bits, a last byte half full.
void check_metadata(std::string_view key, std::string_view value);
std::uint64_t check_tensor(std::string_view name, Dtype dtype, std::span<const std::uint64_t> shape);  // -> its bytes

// What this layout cannot hold, by name.
void check_format(Format format, const NewTensor& tensor);

// The reference's writers store tensors in ascending order of this, and by the bytes of their names where it is equal.
unsigned dtype_order(Format format, Dtype dtype);

// Throws Status::header_size when the result would be longer than any reader takes.
std::string serialize(const NewHeader& header);

}  // namespace st::format
