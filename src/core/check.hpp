// Reports all errors of a checkpoint. Opening stops at the first one.
//
// The code that opens a file decides whether it is valid. If it rejects a header, the same code reads the header again
// and collects its errors. A valid file gets notes about unusual properties.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/checkpoint.hpp"
#include "format/finding.hpp"

namespace st::core {

struct Finding : format::Finding {
  std::shared_ptr<const std::string> path;  // of the file
};

using Report = std::vector<Finding>;

// Reports errors and notes; the first error is the one that opening throws. Throws only if there is nothing to check:
// the path cannot be opened, or is a directory without a model.
Report check(const char* path, const OpenOptions& options);

}  // namespace st::core
