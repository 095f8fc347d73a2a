// The current layout of bintensors (docs/format.md 3.6), as the original writes it. The older one is only read.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "format/serialize.hpp"

namespace st::format {

// Throws for a dtype that the format does not have.
void check_bintensors(const NewTensor& tensor);

// The header without the padding at its end.
void append_bintensors(std::string& out, const NewHeader& header);

}  // namespace st::format
