// Finds a dtype by its name: one switch over its bytes, because every tensor of a header needs it.
// SPDX-License-Identifier: Apache-2.0
#include "base/dtype.hpp"

namespace st {

namespace {

// Returns the first eight bytes of a name as a number. If two dtypes had the same, the switch would not compile.
constexpr std::uint64_t digest(std::string_view name) {
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < name.size() && i < 8; ++i) {
    bytes |= std::uint64_t{static_cast<unsigned char>(name[i])} << 8 * i;
  }
  return bytes;
}

constexpr Dtype candidate(std::string_view name) {
  switch (digest(name)) {
#define ST_DTYPE(name, ...) \
  case digest(#name):       \
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
  // Two dtypes are longer than their digest, and a name of eight bytes may contain a NUL where a shorter one ends.
  return whole && (name.size() <= 8 || info(dtype).name == name) ? dtype : Dtype::unknown;
}

}  // namespace st
