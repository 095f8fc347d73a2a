// The numbers of dtypes in a bintensors header.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

#include "base/dtype.hpp"

namespace st::format::bintensors {

// A dtype's place here is its number in a header, and what the original's writer sorts by.
inline constexpr std::array kDtypesByCode{Dtype::BOOL, Dtype::U8,  Dtype::I8,  Dtype::F8_E5M2, Dtype::F8_E4M3,
                                          Dtype::I16,  Dtype::U16, Dtype::F16, Dtype::BF16,    Dtype::I32,
                                          Dtype::U32,  Dtype::F32, Dtype::F64, Dtype::I64,     Dtype::U64};
inline constexpr std::uint8_t kNoCode = 0xFF;

inline constexpr auto kCodes = [] {
  std::array<std::uint8_t, kDtypes.size()> codes{};
  codes.fill(kNoCode);
  for (std::size_t code = 0; code < kDtypesByCode.size(); ++code) {
    codes[static_cast<std::size_t>(kDtypesByCode[code])] = static_cast<std::uint8_t>(code);
  }
  return codes;
}();

// kNoCode for a dtype that the format does not have.
constexpr std::uint8_t code_of(Dtype dtype) { return kCodes[static_cast<std::size_t>(dtype)]; }

}  // namespace st::format::bintensors
