// From a dtype's name to its number: one switch over the bytes, because every tensor of a header asks.
// SPDX-License-Identifier: Apache-2.0
#include "base/dtype.hpp"

namespace st {

namespace {

// The first eight bytes of a name as a number; no two dtypes share one, or the switch would not compile.
constexpr std::uint64_t digest(std::string_view name) {
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < name.size() && i < 8; ++i) {
    bytes |= std::uint64_t{static_cast<unsigned char>(name[i])} << 8 * i;
  }
  return bytes;
}

constexpr Dtype candidate(std::string_view name) {
  switch (digest(name)) {
    case digest("BOOL"): return Dtype::BOOL;
    case digest("U8"): return Dtype::U8;
    case digest("I8"): return Dtype::I8;
    case digest("U16"): return Dtype::U16;
    case digest("I16"): return Dtype::I16;
    case digest("U32"): return Dtype::U32;
    case digest("I32"): return Dtype::I32;
    case digest("U64"): return Dtype::U64;
    case digest("I64"): return Dtype::I64;
    case digest("F16"): return Dtype::F16;
    case digest("BF16"): return Dtype::BF16;
    case digest("F32"): return Dtype::F32;
    case digest("F64"): return Dtype::F64;
    case digest("C64"): return Dtype::C64;
    case digest("F8_E4M3"): return Dtype::F8_E4M3;
    case digest("F8_E5M2"): return Dtype::F8_E5M2;
    case digest("F8_E8M0"): return Dtype::F8_E8M0;
    case digest("F8_E4M3FNUZ"): return Dtype::F8_E4M3FNUZ;
    case digest("F8_E5M2FNUZ"): return Dtype::F8_E5M2FNUZ;
    case digest("F6_E2M3"): return Dtype::F6_E2M3;
    case digest("F6_E3M2"): return Dtype::F6_E3M2;
    case digest("F4"): return Dtype::F4;
    default: return Dtype::unknown;
  }
}

}  // namespace

Dtype dtype_from_name(std::string_view name) {
  const Dtype dtype = candidate(name);
  const bool whole = name.size() == info(dtype).name.size();
  // Two dtypes are longer than their digest, and eight bytes may hold a NUL where a shorter name has none.
  return whole && (name.size() <= 8 || info(dtype).name == name) ? dtype : Dtype::unknown;
}

}  // namespace st
