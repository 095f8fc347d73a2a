// The contents of a checkpoint in any format: tensors, the storages with their elements, and metadata.
//
// Storages stay in the file. A tensor is a view of a storage as in torch: it has strides, and several tensors may view
// the same storage.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <safetensors/safetensors.h>

#include "budget.hpp"
#include "failure.hpp"
#include "input.hpp"

namespace cli::importer {

constexpr std::size_t kMostTensors = 1'000'000;  // no header has room for more

struct Storage {
  std::string name;          // for messages
  std::uint64_t begin = 0;   // in the input
  std::uint64_t packed = 0;  // bytes in the input; differs from `bytes` only if deflated
  std::uint64_t bytes = 0;
  bool deflated = false;
  std::optional<std::uint32_t> crc;  // of all its bytes
};

struct Tensor {
  std::string name;
  st_dtype dtype = ST_DTYPE_UNKNOWN;
  unsigned element = 0;  // in bytes; torch's F4 has two values per element
  std::vector<std::uint64_t> shape;
  std::vector<std::uint64_t> strides;  // in elements
  std::uint64_t bytes = 0;             // of all elements
  std::size_t storage = 0;
  std::uint64_t begin = 0;  // offset of the first element in the storage
  std::uint64_t end = 0;    // after the last element
};

struct Checkpoint {
  explicit Checkpoint(std::unique_ptr<const Input> from) : input(std::move(from)), budget(input->size()) {}

  std::unique_ptr<const Input> input;
  Budget budget;
  std::vector<Storage> storages;
  std::vector<Tensor> tensors;
  std::map<std::string, std::string> metadata{{"format", "pt"}};
  std::uint64_t left_out = 0;  // number of values that are not tensors
  std::string first_left_out;
  std::vector<std::string> left_out_classes;  // the first few of their classes
  std::uint64_t elsewhere = 0;                // tensors outside of `state_dict`
  std::string first_elsewhere;
};

// Appends a tensor. Throws an ImportError for the offset `at` if the tensors take too much memory.
void add_tensor(Checkpoint& checkpoint, Tensor tensor, std::uint64_t at);

// Counts a value that is not a tensor. kind: its class, or empty if it has none.
void leave_out(Checkpoint& checkpoint, const std::string& name, std::string_view kind);

// Describes the omitted values: their number, the first one, and some of their classes.
std::string words_of_left_out(const Checkpoint& checkpoint);

// Sets bytes, begin and end of a tensor whose other members are set. first: the index of its first element in the
// storage. Throws an ImportError for the offset `at` if the tensor exceeds the storage, or if its size overflows.
void place(Tensor& tensor, std::uint64_t first, const Storage& storage, std::uint64_t at);

bool is_contiguous(const Tensor& tensor);

std::vector<std::uint64_t> row_major(const std::vector<std::uint64_t>& shape);

// Rejects two tensors with the same name. code: kUsage if they may be valid, as in nested dictionaries.
void check_names(const Checkpoint& checkpoint, ExitCode code);

// Rejects a file whose tensors or unpacked storages are so much larger than the file that it is probably an attack on
// the disk.
void check_growth(const Checkpoint& checkpoint);
void check_growth(const Input& input, std::uint64_t bytes);

struct Dropped {
  std::set<std::string> names;
  std::uint64_t views = 0;  // dropped tensors that differ in elements or shape from the kept one
  std::string first_view;
};

// Keeps one of several tensors that share elements, since safetensors cannot express sharing. Metadata maps each
// dropped name to the kept one. Like the reference's converter, keeps the first tensor by name that covers the whole
// storage. A tensor that repeats elements does not count as covering it, because elements would be lost. A tensor whose
// name is already a metadata key is preferred, because metadata could not map that name to another one. Throws an
// ImportError if no tensor covers the storage.
Dropped drop_shared(Checkpoint& checkpoint);

}  // namespace cli::importer
