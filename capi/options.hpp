// The growth rule of public structs: an old caller's shorter struct is extended with zeros, a newer caller's longer
// one is taken as long as it asks for nothing that this library does not know.
//
// A size that no header can have given is refused before a byte behind it is read: a struct nobody initialised would
// otherwise send the library through the memory behind it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/error.hpp"
#include "safetensors/safetensors.h"

namespace st::capi {

// Promised in the header: no version of any struct will be longer.
inline constexpr std::size_t kMostStructBytes = 1024;

// The size in the first version that had the struct: up to its last field then.
template <class Struct>
inline constexpr std::size_t kFirstBytes = 0;
template <>
inline constexpr std::size_t kFirstBytes<st_allocator> = offsetof(st_allocator, free) + sizeof(void*);
template <>
inline constexpr std::size_t kFirstBytes<st_open_options> = offsetof(st_open_options, allocator) + sizeof(void*);
template <>
inline constexpr std::size_t kFirstBytes<st_source> = offsetof(st_source, close) + sizeof(void*);
template <>
inline constexpr std::size_t kFirstBytes<st_read_options> = offsetof(st_read_options, parallel_for) + sizeof(void*);
template <>
inline constexpr std::size_t kFirstBytes<st_write_options> = offsetof(st_write_options, header_reserve) +
                                                             sizeof(std::uint64_t);

template <class Struct>
bool is_possible_size(std::uint32_t size) {
  static_assert(kFirstBytes<Struct> != 0 && sizeof(Struct) <= kMostStructBytes);
  return size >= kFirstBytes<Struct> && size <= kMostStructBytes && size % alignof(Struct) == 0;
}

// All zero for NULL.
template <class Struct>
Struct read_struct(const Struct* given, const char* name) {
  Struct known{};
  if (given == nullptr) return known;
  const std::uint32_t size = given->struct_size;
  if (!is_possible_size<Struct>(size)) {
    fail(Status::struct_size, "{}.struct_size is {}, which no version of it has: set it with ST_INIT", name, size);
  }
  std::memcpy(&known, given, std::min<std::size_t>(size, sizeof(Struct)));
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
