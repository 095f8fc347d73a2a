// The grammar of a bintensors header (docs/format.md 3.1), from bytes to entries that have names of their own, but are
// not yet checked against one another.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string_view>

#include "format/finding.hpp"
#include "format/header_options.hpp"
#include "format/table.hpp"

namespace st::format::bintensors {

// Fills tensors (in the order of the header), metadata and both indexes. Strings are views into the header, without
// a NUL behind them. Returns whether nothing but spaces follows, as writers have it. Throws what `faults` throws, and
// a fault behind which nothing can be read, which is added to what `faults` collects.
bool decode(Format layout, std::span<const char> header, const HeaderOptions& options, Table& table, FaultSink& faults);

}  // namespace st::format::bintensors
