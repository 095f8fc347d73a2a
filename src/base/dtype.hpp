// The element types, as one table.
//
// Numbers are the public ones, pinned for ever (capi/contract.cpp). `rank` is the place in the reference's own
// list (docs/format.md 1.4), which its writer sorts by. Shapes of sub-byte types count elements, not bytes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace st {

enum class Dtype : std::uint8_t {
  unknown = 0,
  BOOL = 1,
  U8 = 2,
  I8 = 3,
  U16 = 4,
  I16 = 5,
  U32 = 6,
  I32 = 7,
  U64 = 8,
  I64 = 9,
  F16 = 10,
  BF16 = 11,
  F32 = 12,
  F64 = 13,
  C64 = 14,
  F8_E4M3 = 15,
  F8_E5M2 = 16,
  F8_E8M0 = 17,
  F8_E4M3FNUZ = 18,
  F8_E5M2FNUZ = 19,
  F6_E2M3 = 20,
  F6_E3M2 = 21,
  F4 = 22,
};

struct DtypeInfo {
  Dtype dtype;
  std::uint8_t bits;
  std::uint8_t rank;
  std::string_view name;
};

inline constexpr std::array<DtypeInfo, 23> kDtypes{{
    {Dtype::unknown, 0, 0, "UNKNOWN"},
    {Dtype::BOOL, 8, 0, "BOOL"},
    {Dtype::U8, 8, 4, "U8"},
    {Dtype::I8, 8, 5, "I8"},
    {Dtype::U16, 16, 12, "U16"},
    {Dtype::I16, 16, 11, "I16"},
    {Dtype::U32, 32, 16, "U32"},
    {Dtype::I32, 32, 15, "I32"},
    {Dtype::U64, 64, 21, "U64"},
    {Dtype::I64, 64, 20, "I64"},
    {Dtype::F16, 16, 13, "F16"},
    {Dtype::BF16, 16, 14, "BF16"},
    {Dtype::F32, 32, 17, "F32"},
    {Dtype::F64, 64, 19, "F64"},
    {Dtype::C64, 64, 18, "C64"},
    {Dtype::F8_E4M3, 8, 7, "F8_E4M3"},
    {Dtype::F8_E5M2, 8, 6, "F8_E5M2"},
    {Dtype::F8_E8M0, 8, 8, "F8_E8M0"},
    {Dtype::F8_E4M3FNUZ, 8, 9, "F8_E4M3FNUZ"},
    {Dtype::F8_E5M2FNUZ, 8, 10, "F8_E5M2FNUZ"},
    {Dtype::F6_E2M3, 6, 2, "F6_E2M3"},
    {Dtype::F6_E3M2, 6, 3, "F6_E3M2"},
    {Dtype::F4, 4, 1, "F4"},
}};

constexpr const DtypeInfo& info(Dtype dtype) { return kDtypes[static_cast<std::size_t>(dtype)]; }

// Dtype::unknown when there is no such name. Names are compared byte for byte.
Dtype dtype_from_name(std::string_view name);

}  // namespace st
