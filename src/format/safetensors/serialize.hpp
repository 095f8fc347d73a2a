// A header of JSON, byte for byte as the reference writes it (docs/format.md 1.5).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>

#include "format/new_header.hpp"
#include "format/table.hpp"

namespace st::format::safetensors {

// Throws for a name that the format keeps for itself.
void check(const NewTensor& tensor);

// The header without the padding at its end.
void append_header(std::string& out, const NewHeader& header);

// "__metadata__":{...}
void append_metadata(std::string& out, std::span<const MetadataPair> metadata);

}  // namespace st::format::safetensors
