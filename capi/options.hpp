// The growth rule of public structs: an old caller's shorter struct is extended with zeros, a newer caller's longer
// one is taken as long as it asks for nothing that this library does not know.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "base/error.hpp"

namespace st::capi {

// All zero for NULL.
template <class Struct>
Struct read_struct(const Struct* given, const char* name) {
  Struct known{};
  known.struct_size = sizeof(Struct);
  if (given == nullptr) return known;
  const std::uint32_t size = given->struct_size;
  if (size < sizeof(std::uint32_t)) fail(Status::struct_size, "{}.struct_size is {}: set it with ST_INIT", name, size);
  std::memcpy(&known, given, std::min<std::size_t>(size, sizeof(Struct)));
  known.struct_size = sizeof(Struct);
  const auto* const bytes = reinterpret_cast<const unsigned char*>(given);
  for (std::size_t i = sizeof(Struct); i < size; ++i) {
    if (bytes[i] != 0) {
      fail(Status::struct_size, "{} sets a field at byte {} that this version of the library does not know", name, i);
    }
  }
  return known;
}

inline void refuse_unknown_flags(std::uint32_t flags, std::uint32_t known, const char* name) {
  if ((flags & ~known) != 0) fail(Status::unsupported, "{}.flags has unknown bits 0x{:x}", name, flags & ~known);
}

}  // namespace st::capi
