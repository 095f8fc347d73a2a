// The first eight bytes of a safetensors or bintensors file: the length of the header after them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "format/header_options.hpp"

namespace st::format {

inline constexpr std::uint64_t kLengthBytes = 8;
inline constexpr std::uint64_t kMaxAlignment = std::uint64_t{1} << 20;  // of the data

// Loads a little-endian length from the first 8 bytes.
std::uint64_t load_length(std::span<const char> bytes);
void store_length(char* to, std::uint64_t length);

// Returns the smallest header length, at least `length`, that aligns the data (which begins 8 bytes later) to
// `alignment`. Throws Status::header_size if no reader accepts a header of that length.
std::uint64_t padded_length(std::uint64_t length, std::uint64_t alignment);

// Implements Container::header_extent.
HeaderExtent extent_by_length(std::span<const char> prefix, std::uint64_t file_size, const HeaderOptions& options,
                              bool recognized);

}  // namespace st::format
