// The header of a .npy: a dictionary as Python spells it, with three keys.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cli::legacy {

struct NumpyHeader {
  std::string type;  // "<f4"
  bool fortran_order = false;
  std::vector<std::uint64_t> shape;
};

// Throws a Refusal, which gives `offset`.
NumpyHeader read_numpy_header(std::string_view text, std::uint64_t offset);

}  // namespace cli::legacy
