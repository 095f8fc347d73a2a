// Reports all errors of a checkpoint. Opening stops at the first one.
//
// The code that opens a file decides whether it is valid. If it rejects a header, the same code reads the header again
// and collects its errors. A valid file gets notes about properties that writers usually avoid.
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

// The first finding that is not a note is the error that opening throws. Throws only if there is nothing to check: the path
// cannot be opened, or is a directory without a model.
Report check(const char* path, const OpenOptions& options);

}  // namespace st::core
