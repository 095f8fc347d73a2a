// One file of a checkpoint: its bytes, its header, and what the header says.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <span>
#include <string>

#include "format/header.hpp"
#include "format/table.hpp"
#include "io/source.hpp"

namespace st {

struct Shard {
  std::string path;          // as the caller or the index spells it; empty for memory and descriptors
  std::size_t number = 0;    // its place among the shards
  io::Source source;
  std::pmr::vector<char> header;  // the N bytes, then format::kPadding zeros
  Table table;

  explicit Shard(std::pmr::memory_resource* memory) : header(memory), table(memory) {}
  Shard(Shard&&) = delete;   // tensors point here

  // Absolute, in the shard's file.
  std::uint64_t offset_of(const Tensor& tensor) const { return table.data_begin + tensor.begin; }
};

}  // namespace st
