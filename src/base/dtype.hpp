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

// Finds dtypes by the first eight bytes of their names. Every tensor of a header needs a lookup, so this is a perfect
// hash, without branches on the name.
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

  constexpr explicit DtypeNames(std::uint64_t factor) : factor_(factor) {
    for (const DtypeInfo& each : kDtypes) {
      if (each.dtype != Dtype::unknown) slots_[slot_of(digest(each.name))] = {digest(each.name), each.dtype};
    }
  }

  // Returns Dtype::unknown if there is no such dtype.
  constexpr Dtype find(std::uint64_t digest) const {
    const Slot& slot = slots_[slot_of(digest)];
    return slot.digest == digest ? slot.dtype : Dtype::unknown;
  }

 private:
  struct Slot {
    std::uint64_t digest = 0;
    Dtype dtype;  // unknown, as slots_{} is zero; an initialiser here is an internal error of g++ 9
  };

  constexpr std::size_t slot_of(std::uint64_t digest) const { return static_cast<std::size_t>(digest * factor_ >> 58); }

  std::array<Slot, 64> slots_{};
  std::uint64_t factor_;
};

constexpr bool names_begin_differently() {
  for (const DtypeInfo& a : kDtypes) {
    for (const DtypeInfo& b : kDtypes) {
      if (a.dtype != b.dtype && DtypeNames::digest(a.name) == DtypeNames::digest(b.name)) return false;
    }
  }
  return true;
}
static_assert(names_begin_differently(), "no factor separates two names with the same first eight bytes");

// Returns an odd factor that gives each dtype its own slot. Compilers limit the number of constexpr steps. If a new
// dtype exceeds the limit, give DtypeNames more slots.
constexpr std::uint64_t factor_without_collision() {
  std::array<std::uint64_t, kDtypes.size()> digests{};
  for (std::size_t i = 1; i < kDtypes.size(); ++i) digests[i] = DtypeNames::digest(kDtypes[i].name);
  std::uint64_t factor = 0xB94067EDFE175331;
  for (;; factor = factor * 6364136223846793005 + 2) {  // stays odd
    std::uint64_t taken = 0;                            // one bit per slot
    std::size_t i = 1;
    for (; i < digests.size(); ++i) {
      const std::uint64_t slot = std::uint64_t{1} << (digests[i] * factor >> 58);
      if ((taken & slot) != 0) break;
      taken |= slot;
    }
    if (i == digests.size()) return factor;
  }
}

inline constexpr DtypeNames kDtypeNames(factor_without_collision());

}  // namespace st
