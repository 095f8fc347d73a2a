// Reading one legacy file, of whichever kind.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "checkpoint.hpp"
#include "conversion.hpp"

namespace cli::legacy {

// Reads what a file holds, without the elements. name: of the tensor, where the format has none. Throws a Refusal or a
// Failure.
Checkpoint read_checkpoint(std::unique_ptr<const Input> input, const std::string& name);

}  // namespace cli::legacy
