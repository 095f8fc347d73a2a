// The grammar of a safetensors header (docs/format.md 1.2). validate() checks the entries that it returns.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory_resource>
#include <span>
#include <vector>

#include "format/finding.hpp"
#include "format/header_options.hpp"
#include "format/table.hpp"

namespace st::format::safetensors {

// The hash of each tensor's name, in the order of the tensors.
using NameHashes = std::pmr::vector<std::uint32_t>;

// Fills tensors (in the order of the text) and metadata. A NUL replaces the closing quote of each name.
//
// Reports every error to `faults`. After a collected error, parsing continues after the invalid value. The incomplete
// tensor stays in the table so that it can be compared with the others. If its offsets are missing, `dims` is null. If
// its dtype or shape is missing, it is a scalar of an unknown dtype. Returns false if the text is not JSON or not an
// object; the table then does not contain all tensors.
bool parse_header(std::span<char> header, const HeaderOptions& options, Table& table, FaultSink& faults,
                  NameHashes* hashes = nullptr);

}  // namespace st::format::safetensors
