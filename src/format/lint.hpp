// Lint notes about valid files that differ from the output of the reference's writer: alignment, order and formatting.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "format/finding.hpp"
#include "format/table.hpp"

namespace st::format {

// Adds a note for each difference. `header` is as in the file.
void lint(const Table& table, std::string_view header, Findings& findings);

}  // namespace st::format
