// The current layout of bintensors (docs/format.md 3.6), as the original writes it. The older one is only read.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "format/new_header.hpp"

namespace st::format::bintensors {

// Throws for a dtype that the format does not have.
void check(const NewTensor& tensor);

// The header without the padding at its end.
void append_header(std::string& out, const NewHeader& header);

}  // namespace st::format::bintensors
