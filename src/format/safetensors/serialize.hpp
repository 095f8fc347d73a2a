// Writes a JSON header, byte for byte as the reference does (docs/format.md 1.5), and replaces the metadata of an
// existing header.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "format/container.hpp"

namespace st::format::safetensors {

// Throws if the format reserves the tensor's name.
void check(const NewTensor& tensor);

// Appends the header without the padding at its end.
void append_header(std::string& out, const NewHeader& header);

// Does not serialize the table again: every tensor's entry keeps its formatting, including unknown fields, and its
// place if possible. JSON allows white space between any two tokens, so the new metadata first uses the room next to
// the old metadata, then the room at the end of the header. If neither is enough, the header grows.
std::string splice_metadata(std::string_view header, const MetadataSplice& splice);

}  // namespace st::format::safetensors
