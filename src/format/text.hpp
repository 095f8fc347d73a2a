// The pieces that JSON headers are spelled from, shared by whoever writes or respells one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "format/table.hpp"

namespace st::format {

void append_number(std::string& out, std::uint64_t value);

// With its quotes, escaped exactly as the reference does.
void append_string(std::string& out, std::string_view text);

// "__metadata__":{...}
void append_metadata(std::string& out, std::span<const MetadataPair> metadata);

// 8 bytes, little-endian.
void store_length(char* to, std::uint64_t length);

// The smallest header length of at least `length` that puts the data, 8 bytes further, on a multiple of `alignment`.
// Throws Status::header_size beyond what any reader takes.
std::uint64_t padded_length(std::uint64_t length, std::uint64_t alignment);

}  // namespace st::format
