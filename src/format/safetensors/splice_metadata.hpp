// The header of an existing file with other metadata, and everything else in it exactly as it was spelled.
//
// Not written anew from the table: fields that this library does not know stay, and so does every tensor's entry,
// byte for byte and if possible at its place. White space is legal between any two tokens, so that room next to the
// metadata, or at the end, is used before the header grows.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "format/container.hpp"

namespace st::format::safetensors {

// As Container::splice_metadata.
std::string splice_metadata(std::string_view header, const MetadataSplice& splice);

}  // namespace st::format::safetensors
