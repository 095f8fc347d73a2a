// Reads the bytes of many tensors in blocks, and reads one block ahead.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include <safetensors/safetensors.hpp>

namespace cli {

// A tensor and its file.
struct Source {
  safetensors::SafeOpen file;
  safetensors::Tensor tensor;
};

// Whole elements of a tensor.
struct Part {
  std::size_t source;  // number in the list
  std::uint64_t at;    // in the tensor, in bytes
  std::span<const std::byte> bytes;
};

// Calls `work` with all bytes of all sources, in order, and skips empty tensors. `what` is the text of the progress bar;
// if it is empty, there is no bar.
void for_each_part(const std::vector<Source>& sources, const std::string& what,
                   const std::function<void(const Part&)>& work);

// The same for the bytes of a shard's file from `from` to the end. Part::source is 0.
void for_each_part(const safetensors::SafeOpen& file, std::size_t shard, std::uint64_t from, const std::string& what,
                   const std::function<void(const Part&)>& work);

}  // namespace cli
