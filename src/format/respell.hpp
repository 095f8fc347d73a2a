// The header of an existing file with other metadata, and everything else in it exactly as it was spelled.
//
// Not written anew from the table: fields that this library does not know stay, and so does every tensor's entry,
// byte for byte and if possible at its place. White space is legal between any two tokens, so that room next to the
// metadata, or at the end, is used before the header grows.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "format/table.hpp"

namespace st::format {

struct Respelling {
  std::span<const MetadataPair> metadata;
  std::uint64_t data_alignment = 8;  // of the data, where the header must grow
  std::uint64_t reserve = 0;         // room to leave next to the metadata, where the header must grow
  bool keep_length = true;           // false: the data must move
};

// `header`: the N bytes of a header that was read without fault, as the file has them. Returns the first bytes of
// the file, length included: as many as before if they fit.
std::string respell(Format format, std::string_view header, const Respelling& respelling);

}  // namespace st::format
