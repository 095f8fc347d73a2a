// The grammar of a bintensors header (docs/format.md 3.1). The entries that it returns have unique names; validate()
// checks their ranges.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/dtype.hpp"
#include "format/finding.hpp"
#include "format/header_options.hpp"
#include "format/table.hpp"

namespace st::format::bintensors {

// Indexed by the number in a header, which is also the order in which the original's writer sorts.
inline constexpr std::array kDtypesByCode{Dtype::BOOL, Dtype::U8,  Dtype::I8,  Dtype::F8_E5M2, Dtype::F8_E4M3,
                                          Dtype::I16,  Dtype::U16, Dtype::F16, Dtype::BF16,    Dtype::I32,
                                          Dtype::U32,  Dtype::F32, Dtype::F64, Dtype::I64,     Dtype::U64};
inline constexpr std::uint8_t kNoCode = 0xFF;

inline constexpr auto kCodes = [] {
  std::array<std::uint8_t, kDtypes.size()> codes{};
  for (std::uint8_t& code : codes) code = kNoCode;
  for (std::size_t code = 0; code < kDtypesByCode.size(); ++code) {
    codes[static_cast<std::size_t>(kDtypesByCode[code])] = static_cast<std::uint8_t>(code);
  }
  return codes;
}();

// Returns kNoCode if the format does not have this dtype.
constexpr std::uint8_t code_of(Dtype dtype) { return kCodes[static_cast<std::size_t>(dtype)]; }

// Fills tensors (in the order of the header), metadata and both indexes. Strings are views into the header, not
// NUL-terminated. Returns whether only spaces follow, as writers pad. Throws the errors that `faults`
// throws. A fatal error is added to the errors that `faults` collects, and thrown.
bool decode(Format layout, std::span<const char> header, const HeaderOptions& options, Table& table, FaultSink& faults);

}  // namespace st::format::bintensors
