// Writes a checkpoint in one of the library's formats.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include <safetensors/safetensors.hpp>

#include "checkpoint.hpp"

namespace cli::importer {

// Reads each storage once, in blocks. Reads a regular output file back and compares it with the written data. Throws an
// ImportError, and then writes nothing, if a storage is damaged. Throws a Failure if the output differs when read back.
// `published` is called between writing and reading back.
void write_checkpoint(const Checkpoint& checkpoint, const std::string& into, st_write_options options,
                      const std::function<void()>& published);

// Prints what write_checkpoint() would write. Throws what it would throw before it creates a file.
void print_checkpoint(const Checkpoint& checkpoint, const std::string& into, const st_write_options& options);

}  // namespace cli::importer
