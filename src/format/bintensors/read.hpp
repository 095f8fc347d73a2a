// The two layouts of bintensors (docs/format.md 3): safetensors with a binary header. Read both, write the current one.
//
// Nothing in the bytes says which layout it is, or that it is bintensors at all. So a header is taken for one only
// if it passes every check, of the decoding and of the ranges, by the current layout or else by the older one.
// Where it passes by both, what follows the last entry decides, which writers fill with spaces.
//
// Rules: standard takes what the original takes. strict refuses what no writer makes: a metadata key twice, other
// padding than spaces, a length that is no multiple of 8. reference never comes here, since the reference of
// safetensors reads no bintensors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "format/finding.hpp"
#include "format/header_options.hpp"
#include "format/table.hpp"

namespace st::format::bintensors {

// As Container::read. Throws the more telling of the two layouts' faults.
void read(std::span<char> header, std::uint64_t file_size, const HeaderOptions& options, Table& table);

// As Container::survey, of the layout that the fault of read() is about.
void survey(std::span<char> header, std::uint64_t file_size, const HeaderOptions& options, Findings& findings);

// As Container::restore.
void restore(std::span<const char> header, const Table& table, std::span<char> copy);

}  // namespace st::format::bintensors
