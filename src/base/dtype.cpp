// From a dtype's name to its number: one switch over the bytes, because every tensor of a header asks.
// SPDX-License-Identifier: Apache-2.0
#include "base/dtype.hpp"

namespace st {

namespace {

// A number from five bytes and the length of a name; no two dtypes share one, or the switch would not compile.
constexpr std::uint64_t digest(std::string_view name) {
  const std::size_t n = name.size();
  const auto at = [name, n](std::size_t i) { return i < n ? std::uint64_t{static_cast<unsigned char>(name[i])} : 0; };
  return at(0) | at(1) << 8 | at(2) << 16 | at(4) << 24 | at(7) << 32 | std::uint64_t{n} << 40;
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
  return dtype != Dtype::unknown && info(dtype).name == name ? dtype : Dtype::unknown;
}

}  // namespace st
