// The dtypes of elements: one table, generated from dtypes.def.
//
// Shapes of sub-byte types count elements, not bytes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace st {

enum class Dtype : std::uint8_t {
  unknown = 0,
#define ST_DTYPE(name, number, ...) name = (number),
#include "base/dtypes.def"
#undef ST_DTYPE
};

inline constexpr std::uint8_t kNoDlpackCode = 255;

// A row of dtypes.def, which describes the columns. The strings end with a NUL.
struct DtypeInfo {
  Dtype dtype;
  std::uint8_t bits;
  std::uint8_t write_order;
  std::uint8_t dlpack;
  bool convertible;
  double smallest_normal;
  std::string_view name;
  std::string_view numpy;
  std::string_view torch;
};

// By number.
inline constexpr auto kDtypes = std::to_array<DtypeInfo>({
    {Dtype::unknown, 0, 0, kNoDlpackCode, false, 0, "UNKNOWN", "", ""},
#define ST_DTYPE(name, number, bits, write_order, dlpack, convertible, smallest_normal, numpy, torch) \
  {Dtype::name, bits, write_order, dlpack, convertible, smallest_normal, #name, numpy, torch},
#include "base/dtypes.def"
#undef ST_DTYPE
});

constexpr bool rows_are_by_number() {
  for (const DtypeInfo& each : kDtypes) {
    if (&each != &kDtypes[static_cast<std::size_t>(each.dtype)]) return false;
  }
  return true;
}
static_assert(rows_are_by_number());

constexpr const DtypeInfo& info(Dtype dtype) { return kDtypes[static_cast<std::size_t>(dtype)]; }

// Returns Dtype::unknown if there is no such number.
constexpr Dtype dtype_from_number(std::int64_t number) {
  const bool known = number > 0 && number < static_cast<std::int64_t>(kDtypes.size());
  return known ? static_cast<Dtype>(number) : Dtype::unknown;
}

// Returns Dtype::unknown if there is no such name. Names are compared byte for byte.
Dtype dtype_from_name(std::string_view name);

// Finds dtypes by the first eight bytes of their names. A perfect hash has no branch on the name, and every tensor of a
// header needs it.
class DtypeNames {
 public:
  // Returns the first eight bytes of a name as a number.
  static constexpr std::uint64_t digest(std::string_view name) {
    std::uint64_t bytes = 0;
    for (std::size_t i = 0; i < name.size() && i < 8; ++i) {
      bytes |= std::uint64_t{static_cast<unsigned char>(name[i])} << 8 * i;
    }
    return bytes;
  }

  constexpr DtypeNames() {
    for (const DtypeInfo& each : kDtypes) {
      Slot& slot = slots_[slot_of(digest(each.name))];
      if (each.dtype == Dtype::unknown) continue;
      has_collision = has_collision || slot.dtype != Dtype::unknown;
      slot.digest = digest(each.name);
      slot.dtype = each.dtype;
    }
  }

  // Returns Dtype::unknown if there is no such dtype.
  constexpr Dtype find(std::uint64_t digest) const {
    const Slot& slot = slots_[slot_of(digest)];
    return slot.digest == digest ? slot.dtype : Dtype::unknown;
  }

  bool has_collision = false;

 private:
  struct Slot {
    std::uint64_t digest = 0;
    Dtype dtype;  // unknown, as slots_{} is zero; an initialiser here is an internal error of g++ 9
  };

  static constexpr std::size_t slot_of(std::uint64_t digest) {
    return static_cast<std::size_t>(digest * 0xB94067EDFE175331 >> 58);
  }

  std::array<Slot, 64> slots_{};
};

inline constexpr DtypeNames kDtypeNames;
static_assert(!kDtypeNames.has_collision, "try another odd number in slot_of()");

}  // namespace st
