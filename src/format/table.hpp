// What a header says, once it has been read: tensors, metadata and an index by name.
//
// Every format (safetensors, bintensors) is read into this one table, and nothing above src/format knows which it
// was. A table is filled once, checked, and never changes again. Names and metadata are views into the header
// bytes themselves wherever the file spells them without escapes; the closing quote is overwritten with a NUL.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <span>
#include <string_view>
#include <vector>

#include "base/dtype.hpp"
#include "format/name_index.hpp"

namespace st::format {

// 48 bytes, because a hundred thousand of them are written while a user waits.
struct Tensor {
  const void* owner = nullptr;          // HeaderOptions::owner
  const char* name_text = nullptr;      // NUL-terminated
  std::uint64_t begin = 0;              // relative to the first data byte
  std::uint64_t end = 0;                // one past
  const std::uint64_t* dims = nullptr;  // rank of them; for an unknown dtype one more word, see dtype_name()
  std::uint32_t rank = 0;
  std::uint32_t name_bytes : 27 = 0;  // a header, and so a name, has at most 100,000,000 bytes
  std::uint32_t dtype_number : 5 = 0;

  std::string_view name() const { return {name_text, name_bytes}; }
  std::span<const std::uint64_t> shape() const { return {dims, rank}; }
  Dtype dtype() const { return static_cast<Dtype>(dtype_number); }
  std::uint64_t bytes() const { return end - begin; }
  // As in the file. The name of a dtype that this build does not know lies behind the address in dims[rank].
  const char* dtype_name() const;
};
static_assert(kDtypes.size() <= 1U << 5, "a dtype's number no longer fits in Tensor");

enum class Format : std::uint8_t { safetensors = 1, bintensors = 2, bintensors_old = 3 };

struct MetadataPair {
  std::string_view key;  // both NUL-terminated
  std::string_view value;

  std::string_view name() const { return key; }
};

struct Table {
  std::pmr::monotonic_buffer_resource arena;  // shapes, and strings that had to be unescaped
  std::pmr::vector<Tensor> tensors;           // in data order: (begin, end, name)
  std::pmr::vector<MetadataPair> metadata;    // in the order of the file
  NameIndex<Tensor> index;
  NameIndex<MetadataPair> metadata_index;
  std::uint64_t data_begin = 0;  // absolute, in the file
  bool has_metadata = false;     // an empty map is not the same as none
  Format format = Format::safetensors;

  explicit Table(std::pmr::memory_resource* memory)
      : arena(memory), tensors(memory), metadata(memory), index(memory), metadata_index(memory) {}

  // Forgets what a header said, before another is read. The indexes are made anew by whoever reads it.
  void clear();
};

}  // namespace st::format
