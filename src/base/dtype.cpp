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
#define ST_DTYPE(name, number, bits, rank) \
  case digest(#name):                      \
    return Dtype::name;
#include "base/dtypes.def"
#undef ST_DTYPE
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
