// One deviation of a file from its format, or from how writers write it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/error.hpp"

namespace st::format {

struct Finding {
  Error fault;
  std::string tensor;  // that it concerns; empty with has_tensor = false: none
  bool has_tensor = false;
  bool is_note = false;  // the file is valid all the same
};

using Findings = std::vector<Finding>;

// What is told of a file. A header of 100 MB can hold millions of faults, each of which takes more memory than its text.
inline constexpr std::size_t kMostFindings = 1000;

}  // namespace st::format
