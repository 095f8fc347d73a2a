// The element types, as one table made of dtypes.def.
//
// Shapes of sub-byte types count elements, not bytes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace st {

enum class Dtype : std::uint8_t {
  unknown = 0,
#define ST_DTYPE(name, number, bits, rank) name = (number),
#include "base/dtypes.def"
#undef ST_DTYPE
};

struct DtypeInfo {
  Dtype dtype;
  std::uint8_t bits;
  std::uint8_t rank;
  std::string_view name;
};

// By number. The names end with a NUL.
inline constexpr auto kDtypes = std::to_array<DtypeInfo>({
    {Dtype::unknown, 0, 0, "UNKNOWN"},
#define ST_DTYPE(name, number, bits, rank) {Dtype::name, bits, rank, #name},
#include "base/dtypes.def"
#undef ST_DTYPE
});

static_assert(std::all_of(kDtypes.begin(), kDtypes.end(), [](const DtypeInfo& each) {
  return &each == &kDtypes[static_cast<std::size_t>(each.dtype)];
}));

constexpr const DtypeInfo& info(Dtype dtype) { return kDtypes[static_cast<std::size_t>(dtype)]; }

// Dtype::unknown when there is no such number.
constexpr Dtype dtype_from_number(std::int64_t number) {
  const bool known = number > 0 && number < static_cast<std::int64_t>(kDtypes.size());
  return known ? static_cast<Dtype>(number) : Dtype::unknown;
}

// Dtype::unknown when there is no such name. Names are compared byte for byte.
Dtype dtype_from_name(std::string_view name);

}  // namespace st
