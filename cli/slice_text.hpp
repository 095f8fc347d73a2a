// A slice as people write it: "1:3, :, -1, ::2, ...".
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include <safetensors/safetensors.hpp>

namespace cli {

struct SliceText {
  std::vector<safetensors::Range> ranges;  // one per dimension
  std::vector<bool> dropped;               // an index instead of a range: the dimension is gone in the result
};

// The text means what it means in Python, with or without brackets. Throws a Failure that says what is wrong with it.
SliceText parse_slice(std::string_view text, safetensors::View<std::uint64_t> shape);

}  // namespace cli
