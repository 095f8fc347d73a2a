// The rules that hold between the entries of a header, and between the header and its file (docs/format.md 1.1, 6-10).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "format/finding.hpp"
#include "format/table.hpp"

namespace st::format {

// Puts tensors in data order: by (begin, end), ties by name. true when they stood otherwise.
bool sort_by_data(Table& table);

// Checks each tensor, then the end of the file. `table` is in data order. After a fault that is collected, the next
// tensor is expected at the furthest end so far, so one wrong tensor gives one finding or two.
void validate(const Table& table, std::uint64_t file_size, FaultSink& faults);

}  // namespace st::format
