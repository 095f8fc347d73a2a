// numpy's files: one array (.npy), or a zip archive of several (.npz).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "checkpoint.hpp"

namespace cli::legacy {

// name: of the tensor, since a .npy has none.
Checkpoint read_npy(std::unique_ptr<const Input> input, const std::string& name);
Checkpoint read_npz(std::unique_ptr<const Input> input, const std::vector<ZipEntry>& entries);

}  // namespace cli::legacy
