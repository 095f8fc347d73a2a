// Numbers and names as a person reads them on a terminal.
//
// Names come from files that strangers made. Whatever a terminal would obey instead of showing (control bytes,
// escape sequences, marks that turn the direction of writing) leaves here as visible text.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <safetensors/safetensors.hpp>

namespace cli {

// Controls as \n, \t, \u001b; bytes that are no UTF-8 as \xff; everything else as it is.
std::string printable(std::string_view text);

// A name or value: as it is when that is safe and unmistakable, otherwise in quotes with escapes. At most `limit`
// characters of it, then how long it was.
std::string shown(std::string_view text, std::size_t limit);

// Columns on a terminal, below 1000: what fmt takes a text to be when it pads it.
std::size_t width_of(std::string_view text);

// "[50257, 768]"; a shape too wide for a column is cut and its rank told.
std::string shape_text(safetensors::View<std::uint64_t> shape);

std::string human_bytes(std::uint64_t bytes);  // "548.1 MB": decimal, as file managers and download pages count
std::string human_count(std::uint64_t count);  // "137.0 M"
std::string grouped(std::uint64_t count);      // "100,000"

}  // namespace cli
