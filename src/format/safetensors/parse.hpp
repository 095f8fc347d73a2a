// The grammar of a safetensors header (docs/format.md 1.2), from text to entries not yet checked against one another.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "format/finding.hpp"
#include "format/header_options.hpp"
#include "format/table.hpp"

namespace st::format::safetensors {

// Fills tensors (in the order of the text) and metadata. Names get a NUL in place of their closing quote.
//
// Every fault goes to `faults`. After one that is collected, parsing continues after the faulty value. The tensor is
// kept as far as it is known, so that it can still be compared with the others: without its offsets, `dims` is null;
// without its dtype or shape, it is a scalar of an unknown dtype. Returns false if the text is not JSON or not an
// object: then not all tensors are known.
bool parse_header(std::span<char> header, const HeaderOptions& options, Table& table, FaultSink& faults);

}  // namespace st::format::safetensors
