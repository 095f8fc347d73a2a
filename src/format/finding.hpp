// One deviation of a file from its format, or from how writers write it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

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

}  // namespace st::format
