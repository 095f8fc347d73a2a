// The grammar of a safetensors header (docs/format.md 1.2), from text to entries not yet checked against one another.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "format/header_options.hpp"
#include "format/table.hpp"

namespace st::format::safetensors {

// Fills tensors (in the order of the text) and metadata. Names get a NUL in place of their closing quote.
void parse_header(std::span<char> header, const HeaderOptions& options, Table& table);

}  // namespace st::format::safetensors
