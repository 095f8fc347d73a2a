// In what a valid file differs from what writers write: alignment, order, spelling.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "format/finding.hpp"
#include "format/table.hpp"

namespace st::format {

// `header` as the file spells it. Every finding is a note.
void note_habits(const Table& table, std::string_view header, Findings& findings);

}  // namespace st::format
