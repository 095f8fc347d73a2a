// The commands of `safetensors`, one function each: it declares the command's options to the parser, and what
// runs when the command is chosen. A command ends by returning, or by throwing a Failure or a safetensors::Error.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>

namespace cli {

void add_cast(CLI::App& app);
void add_cat(CLI::App& app);
void add_convert(CLI::App& app);
void add_diff(CLI::App& app);
void add_extract(CLI::App& app);
void add_hash(CLI::App& app);
void add_merge(CLI::App& app);
void add_meta(CLI::App& app);
void add_rename(CLI::App& app);
void add_show(CLI::App& app);
void add_split(CLI::App& app);
void add_stats(CLI::App& app);
void add_verify(CLI::App& app);

// All of them, in the order of the help.
void add_commands(CLI::App& app);

}  // namespace cli
