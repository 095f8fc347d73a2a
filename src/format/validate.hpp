// The rules that hold between the entries of a header, and between the header and its file (docs/format.md 1.1, 6-10).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "format/table.hpp"

namespace st::format {

// Puts tensors in data order: by (begin, end), ties by name. true when they stood otherwise.
bool sort_by_data(Table& table);

// Tensor after tensor, then the end of the file. `table` is in data order. Throws at the first fault.
void validate(const Table& table, std::uint64_t file_size);

// What validate() checks of one tensor, and of the end. `offset` is the tensor's place in the file, for the error.
void check_place(const Tensor& tensor, std::uint64_t expected, std::uint64_t offset);
void check_size(const Tensor& tensor, std::uint64_t offset);
void check_coverage(std::uint64_t data_begin, std::uint64_t data_size, std::uint64_t file_size);

}  // namespace st::format
