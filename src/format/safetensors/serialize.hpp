// Writes a header of JSON, byte for byte as the reference writes it (docs/format.md 1.5), and replaces the metadata of
// an existing header.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "format/container.hpp"

namespace st::format::safetensors {

// Throws for a name that the format reserves.
void check(const NewTensor& tensor);

// Appends the header without the padding at its end.
void append_header(std::string& out, const NewHeader& header);

// Implements Container::splice_metadata.
//
// Does not serialize the table again: every tensor's entry, with fields that this library does not know, stays as it is
// spelled and if possible at its place. JSON allows white space between any two tokens, so the new metadata first takes
// the room next to the old metadata, or at the end of the header. Only then does the header grow.
std::string splice_metadata(std::string_view header, const MetadataSplice& splice);

}  // namespace st::format::safetensors
