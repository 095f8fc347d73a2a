// The commands of `safetensors`, one function each: it declares the command's options to the parser, and what
// runs when the command is chosen. A command ends by returning, or by throwing a Failure or a safetensors::Error.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "parser.hpp"

namespace cli {

void add_cast(Command& app);
void add_cat(Command& app);
void add_convert(Command& app);
void add_diff(Command& app);
void add_extract(Command& app);
void add_hash(Command& app);
void add_merge(Command& app);
void add_meta(Command& app);
void add_rename(Command& app);
void add_show(Command& app);
void add_split(Command& app);
void add_stats(Command& app);
void add_verify(Command& app);

}  // namespace cli
