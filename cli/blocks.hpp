// Reads the bytes of many tensors in blocks, one block ahead. Throws at the end if a file was overwritten in the
// meantime.
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

// A part of a tensor's data, made of whole elements.
struct Part {
  std::size_t source;  // index in the list
  std::uint64_t at;    // byte offset in the tensor
  std::span<const std::byte> bytes;
};

// Calls `work` with all bytes of all sources, in order, skipping empty tensors. `what` is the label of the progress
// bar; if it is empty, there is no bar.
void for_each_part(const std::vector<Source>& sources, const std::string& what,
                   const std::function<void(const Part&)>& work);

// Does the same for the bytes of a shard's file, from `from` to the end. Part::source is 0.
void for_each_part(const safetensors::SafeOpen& file, std::size_t shard, std::uint64_t from, const std::string& what,
                   const std::function<void(const Part&)>& work);

// Throws if one of these files was overwritten in place since it was opened. for_each_part() does this itself.
void check_unchanged(const std::vector<Source>& sources);

}  // namespace cli
