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

#include <array>
#include <cstdint>
#include <span>

#include "format/header.hpp"

namespace st::format {

// The header's first byte says whether there is metadata; JSON begins with neither.
inline bool may_begin_bintensors(char first) { return first == '\0' || first == '\1'; }

// As read_header(), for a header that may_begin_bintensors(). Throws the more telling of the two layouts' faults.
void read_bintensors(std::span<char> header, std::uint64_t file_size, const HeaderOptions& options, Table& table);

// Puts back into `copy`, which has the bytes of `header`, what read_bintensors() overwrote.
void restore_bintensors(std::span<const char> header, const Table& table, char* copy);

// A dtype's place here is its number in a header, and what the original's writer sorts by.
inline constexpr std::array kBintensorsDtypes{Dtype::BOOL, Dtype::U8,  Dtype::I8,  Dtype::F8_E5M2, Dtype::F8_E4M3,
                                              Dtype::I16,  Dtype::U16, Dtype::F16, Dtype::BF16,    Dtype::I32,
                                              Dtype::U32,  Dtype::F32, Dtype::F64, Dtype::I64,     Dtype::U64};
inline constexpr std::uint8_t kNoBintensorsCode = 0xFF;

inline constexpr auto kBintensorsCodes = [] {
  std::array<std::uint8_t, kDtypes.size()> codes{};
  codes.fill(kNoBintensorsCode);
  for (std::size_t code = 0; code < kBintensorsDtypes.size(); ++code) {
    codes[static_cast<std::size_t>(kBintensorsDtypes[code])] = static_cast<std::uint8_t>(code);
  }
  return codes;
}();

// kNoBintensorsCode for a dtype that the format does not have.
constexpr std::uint8_t bintensors_code(Dtype dtype) { return kBintensorsCodes[static_cast<std::size_t>(dtype)]; }

}  // namespace st::format
