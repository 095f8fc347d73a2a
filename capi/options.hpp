// Reads the caller's option structs and checks their values.
//
// Structs grow between versions. The shorter struct of an older caller is extended with zeros. The longer struct of a
// newer caller is accepted if all unknown members are zero. A size that is too small or too large for any version is
// rejected before other members are read: it is probably uninitialized, and reading that far would overrun the struct.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/error.hpp"
#include "core/checkpoint.hpp"
#include "safetensors/safetensors.h"

namespace st::capi {

// The header promises that no struct will ever be longer.
inline constexpr std::size_t kMostStructBytes = 1024;

// The size of the struct in its first version: the end of its last member.
template <class Struct>
inline constexpr std::size_t kFirstBytes = 0;
template <>
inline constexpr std::size_t kFirstBytes<st_allocator> = offsetof(st_allocator, free) + sizeof(void*);
template <>
inline constexpr std::size_t kFirstBytes<st_open_options> = offsetof(st_open_options, allocator) + sizeof(void*);
template <>
inline constexpr std::size_t kFirstBytes<st_source> = offsetof(st_source, close) + sizeof(void*);
template <>
inline constexpr std::size_t kFirstBytes<st_store> = offsetof(st_store, reserved) + sizeof(std::uint32_t);
template <>
inline constexpr std::size_t kFirstBytes<st_read_options> = offsetof(st_read_options, parallel_for) + sizeof(void*);
template <>
inline constexpr std::size_t kFirstBytes<st_group> = offsetof(st_group, alltoallv) + sizeof(void*);
template <>
inline constexpr std::size_t kFirstBytes<st_write_options> = offsetof(st_write_options, header_reserve) +
                                                             sizeof(std::uint64_t);
template <>
inline constexpr std::size_t kFirstBytes<st_device_options> = offsetof(st_device_options, library) + sizeof(void*);
template <>
inline constexpr std::size_t kFirstBytes<st_device_ops> = offsetof(st_device_ops, close) + sizeof(void*);

template <class Struct>
bool is_possible_size(std::uint32_t size) {
  static_assert(kFirstBytes<Struct> != 0 && sizeof(Struct) <= kMostStructBytes);
  return size >= kFirstBytes<Struct> && size <= kMostStructBytes && size % alignof(Struct) == 0;
}

// Copies the members that this version knows. All are zero if `given` is NULL.
template <class Struct>
Struct known_members(const Struct* given, const char* name) {
  Struct known{};
  if (given == nullptr) return known;
  const std::uint32_t size = given->struct_size;
  if (!is_possible_size<Struct>(size)) {
    fail(Status::struct_size, "{}.struct_size is {}, which no version of the struct has: initialize it with ST_INIT",
         name, size);
  }
  std::memcpy(&known, given, std::min<std::size_t>(size, sizeof(Struct)));
  return known;
}

// Throws if unknown members are not zero. known_members() must have checked the size of `given`.
template <class Struct>
void refuse_unknown_members(const Struct& given, const char* name) {
  const auto* const bytes = reinterpret_cast<const unsigned char*>(&given);
  for (std::size_t i = sizeof(Struct); i < given.struct_size; ++i) {
    if (bytes[i] != 0) {
      fail(Status::struct_size, "{} sets a field at byte {} that this version of the library does not know", name, i);
    }
  }
}

// For structs without a close function. For a struct with one, call known_members(), take ownership, and then check: a
// rejected struct must be closed, too.
template <class Struct>
Struct read_struct(const Struct* given, const char* name) {
  const Struct known = known_members(given, name);
  if (given != nullptr) refuse_unknown_members(*given, name);
  return known;
}

inline void refuse_unknown_flags(std::uint32_t flags, std::uint32_t known, const char* name) {
  if ((flags & ~known) != 0) fail(Status::unsupported, "{}.flags has unknown bits 0x{:x}", name, flags & ~known);
}

// The options may be NULL.
core::OpenOptions open_options(const st_open_options* given);
// Checks the flags, and the members common to the writer and edits. The options may be NULL.
st_write_options write_options(const st_write_options* given, std::uint32_t known_flags);

}  // namespace st::capi
