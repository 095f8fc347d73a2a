// Writes a legacy checkpoint as one file of the library's formats, and reads it again to see that it is what it should.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <safetensors/safetensors.hpp>

#include "checkpoint.hpp"

namespace cli::legacy {

// Storages pass through memory in blocks, each of them once. Throws a Refusal for what is found to be wrong with them,
// and then nothing is written. A file that was written is read again; a stream cannot be.
void write_checkpoint(const Checkpoint& checkpoint, const std::string& into, st_write_options options);

}  // namespace cli::legacy
