// What the library and its numbers are called.
// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "base/dtype.hpp"
#include "base/error.hpp"
#include "format/utf8.hpp"
#include "safetensors/safetensors.h"

using namespace st;

extern "C" {

uint32_t st_version(void) { return ST_VERSION_MAJOR << 16 | ST_VERSION_MINOR << 8 | ST_VERSION_PATCH; }

const char* st_version_string(void) {
  static const std::array<char, 64> text = [] {
    std::array<char, 64> made{};
    const format::LibraryVersion simdjson = format::simdjson_version();
    fmt::format_to_n(made.data(), made.size() - 1, "{}.{}.{} (simdjson {}.{}.{})", ST_VERSION_MAJOR, ST_VERSION_MINOR,
                     ST_VERSION_PATCH, simdjson.major_number, simdjson.minor_number, simdjson.patch_number);
    return made;
  }();
  return text.data();
}

const char* st_status_name(st_status status) {
  switch (status) {
#define ST_STATUS(name, public_name, number) \
  case public_name:                          \
    return #public_name;
#include "base/statuses.def"
#undef ST_STATUS
    default: return "an unknown status";
  }
}

const char* st_dtype_name(st_dtype dtype) { return info(dtype_from_number(dtype)).name.data(); }

uint32_t st_dtype_bits(st_dtype dtype) { return info(dtype_from_number(dtype)).bits; }

st_dtype st_dtype_from_name(const char* name, size_t len) {
  return name == nullptr ? ST_DTYPE_UNKNOWN : static_cast<st_dtype>(dtype_from_name({name, len}));
}

}  // extern "C"
