// Checks the entries of a header against each other and against the file (docs/format.md 1.1, rules 6-10).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "format/finding.hpp"
#include "format/table.hpp"

namespace st::format {

// Sorts tensors into data order: by (begin, end), ties by name. Returns whether their order changed.
bool sort_by_data(Table& table);

// Fast path, one pass: returns true only if the tensors are in data order and validate() would accept them. May also
// return false for a valid table, for example one with an empty tensor.
bool is_plainly_valid(const Table& table, std::uint64_t file_size);

// Checks each tensor, then the end of the file. `table` is in data order. After a collected error, the next tensor is
// expected at the largest end so far, so one wrong tensor gives one or two findings.
void validate(const Table& table, std::uint64_t file_size, FaultSink& faults);

}  // namespace st::format
