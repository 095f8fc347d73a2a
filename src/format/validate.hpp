// The rules that hold between the entries of a header, and between the header and its file (docs/format.md 1.1, 6-10).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "format/finding.hpp"
#include "format/table.hpp"

namespace st::format {

// Sorts tensors into data order: by (begin, end), ties by name. Returns whether their order changed.
bool sort_by_data(Table& table);

// Returns true if the tensors are in data order and validate() accepts them: one pass, which is enough for most files.
// Returns false for any other table, and for some valid ones, such as a table with an empty tensor.
bool is_plainly_valid(const Table& table, std::uint64_t file_size);

// Checks each tensor, then the end of the file. `table` is in data order. After a collected error, the next tensor is
// expected at the largest end so far, so one wrong tensor gives one or two findings.
void validate(const Table& table, std::uint64_t file_size, FaultSink& faults);

}  // namespace st::format
