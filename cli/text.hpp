// Numbers and names as a person reads them on a terminal.
//
// Names come from files that nobody trusts. Characters that act on a terminal (control characters, escape sequences,
// marks that change the direction of writing) become visible text.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <safetensors/safetensors.hpp>

namespace cli {

// Returns the text with control characters as \n, \t, \u001b and bytes that are not UTF-8 as \xff.
std::string printable(std::string_view text);

bool is_utf8(std::string_view text);

// Returns a name or value, in quotes and with escapes if it is not safe or not clear without. At most `limit`
// characters of it, and then its length.
std::string shown(std::string_view text, std::size_t limit);

// Returns the width in columns that fmt assumes when it pads the text; less than 1000.
std::size_t width_of(std::string_view text);

// "[50257, 768]"; a shape that is too wide for a column is cut, and its rank is added.
std::string shape_text(safetensors::View<std::uint64_t> shape);

std::string human_bytes(std::uint64_t bytes);  // "548.1 MB": decimal, as file managers and download pages count
std::string human_count(std::uint64_t count);  // "137.0 M"
std::string grouped(std::uint64_t count);      // "100,000"
std::string counted(std::uint64_t count, std::string_view thing);  // "1 tensor", "100,000 tensors"

std::string hex(const std::vector<unsigned char>& bytes);

}  // namespace cli
