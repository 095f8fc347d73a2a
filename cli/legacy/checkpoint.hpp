// What every legacy format is read into: tensors, the storages that hold their elements, metadata.
//
// Nothing of a storage is in memory. Tensors are views of storages as in torch: several may show the same one, with
// strides of their own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <safetensors/safetensors.h>

#include "input.hpp"
#include "zip.hpp"

namespace cli::legacy {

constexpr std::size_t kMostTensors = 1'000'000;  // which no header could list

struct Storage {
  std::string name;          // for messages
  std::uint64_t begin = 0;   // in the input
  std::uint64_t packed = 0;  // bytes in the input; other than `bytes` only if deflated
  std::uint64_t bytes = 0;
  bool deflated = false;
  std::optional<std::uint32_t> crc;  // of all of its bytes
};

struct Tensor {
  std::string name;
  st_dtype dtype = ST_DTYPE_UNKNOWN;
  unsigned element = 0;  // bytes; of torch's F4, two values are one element
  std::vector<std::uint64_t> shape;
  std::vector<std::uint64_t> strides;  // in elements
  std::uint64_t bytes = 0;             // of all elements
  std::size_t storage = 0;
  std::uint64_t begin = 0;  // byte of the storage at which the first element lies
  std::uint64_t end = 0;    // behind the last one
};

struct Checkpoint {
  std::unique_ptr<const Input> input;
  std::vector<Storage> storages;
  std::vector<Tensor> tensors;
  std::map<std::string, std::string> metadata{{"format", "pt"}};
  std::uint64_t left_out = 0;  // values that are no tensors
  std::string first_left_out;
};

inline Storage storage_of(const ZipEntry& entry) {
  return {entry.name, entry.begin, entry.packed, entry.bytes, entry.deflated, entry.crc};
}

// Sets bytes, begin and end of a tensor whose other members are set, where its first element is number `first` of its
// storage. Throws a Refusal, which gives `at`, if it reaches beyond the storage or has too many elements.
void place(Tensor& tensor, std::uint64_t first, const Storage& storage, std::uint64_t at);

// Whether its elements lie one after the other.
bool is_contiguous(const Tensor& tensor);

std::vector<std::uint64_t> row_major(const std::vector<std::uint64_t>& shape);

// Refuses two tensors of one name, as dictionaries that hold others can give.
void check_names(const Checkpoint& checkpoint);

// Refuses a file whose tensors, or whose unpacked storages, are so much longer that it must be meant to fill the disk.
void check_growth(const Checkpoint& checkpoint);

}  // namespace cli::legacy
