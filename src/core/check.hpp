// Everything that is wrong with a checkpoint, where opening it tells the first fault.
//
// Whether a file is valid is decided by the code that opens it. Where it rejects a header, the same code reads the header
// again and collects its faults. A valid one is looked at for habits that writers do not have.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/checkpoint.hpp"
#include "format/finding.hpp"

namespace st::core {

struct Finding : format::Finding {
  std::shared_ptr<const std::string> path;  // of the file that it concerns
};

using Report = std::vector<Finding>;

// Throws only if there is nothing to check: the path cannot be opened, or leads to no model.
Report check(const char* path, const OpenOptions& options);

}  // namespace st::core
