// The bytes of many tensors in the order of the data, in blocks, of which the next is read while one is worked on.
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

// A part of a tensor: its bytes from `at`, in whole elements.
struct Part {
  std::size_t source;  // of the list
  std::uint64_t at;
  std::span<const std::byte> bytes;
};

// Calls `work` with all bytes of all sources, in their order. A tensor without bytes is left out. Shows a bar with this
// text while it takes long; none if the text is empty.
void for_each_part(const std::vector<Source>& sources, const std::string& what,
                   const std::function<void(const Part&)>& work);

// The same for the bytes of a whole shard, header included: `Part::source` is 0.
void for_each_part(const safetensors::SafeOpen& file, std::size_t shard, std::uint64_t from, const std::string& what,
                   const std::function<void(const Part&)>& work);

}  // namespace cli
