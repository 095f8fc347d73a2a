// Writes a checkpoint in one of the library's formats.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include <safetensors/safetensors.hpp>

#include "checkpoint.hpp"

namespace cli::importer {

// Reads each storage once, in blocks. If the output is a regular file, reads it back and compares it with the written
// data. If a storage is damaged, throws an ImportError and writes nothing. If the file read back differs, throws a
// Failure. Calls `published` between writing and reading back.
void write_checkpoint(const Checkpoint& checkpoint, const std::string& into, st_write_options options,
                      const std::function<void()>& published);

// Prints what write_checkpoint() would write. Throws the errors that it would throw before it creates a file.
void print_checkpoint(const Checkpoint& checkpoint, const std::string& into, const st_write_options& options);

}  // namespace cli::importer
