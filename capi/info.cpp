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
    case ST_OK: return "ST_OK";
    case ST_ERR_ARGUMENT: return "ST_ERR_ARGUMENT";
    case ST_ERR_STRUCT_SIZE: return "ST_ERR_STRUCT_SIZE";
    case ST_ERR_UNSUPPORTED: return "ST_ERR_UNSUPPORTED";
    case ST_ERR_NOT_FOUND: return "ST_ERR_NOT_FOUND";
    case ST_ERR_RANGE: return "ST_ERR_RANGE";
    case ST_ERR_BUFFER_SIZE: return "ST_ERR_BUFFER_SIZE";
    case ST_ERR_STATE: return "ST_ERR_STATE";
    case ST_ERR_CANCELLED: return "ST_ERR_CANCELLED";
    case ST_ERR_NO_MEMORY: return "ST_ERR_NO_MEMORY";
    case ST_ERR_OPEN: return "ST_ERR_OPEN";
    case ST_ERR_READ: return "ST_ERR_READ";
    case ST_ERR_WRITE: return "ST_ERR_WRITE";
    case ST_ERR_MAP: return "ST_ERR_MAP";
    case ST_ERR_CALLBACK: return "ST_ERR_CALLBACK";
    case ST_ERR_TRUNCATED: return "ST_ERR_TRUNCATED";
    case ST_ERR_HEADER_SIZE: return "ST_ERR_HEADER_SIZE";
    case ST_ERR_UTF8: return "ST_ERR_UTF8";
    case ST_ERR_JSON: return "ST_ERR_JSON";
    case ST_ERR_SCHEMA: return "ST_ERR_SCHEMA";
    case ST_ERR_DUPLICATE: return "ST_ERR_DUPLICATE";
    case ST_ERR_DTYPE: return "ST_ERR_DTYPE";
    case ST_ERR_OFFSETS: return "ST_ERR_OFFSETS";
    case ST_ERR_OVERFLOW: return "ST_ERR_OVERFLOW";
    case ST_ERR_MISALIGNED: return "ST_ERR_MISALIGNED";
    case ST_ERR_TENSOR_SIZE: return "ST_ERR_TENSOR_SIZE";
    case ST_ERR_COVERAGE: return "ST_ERR_COVERAGE";
    case ST_ERR_SHARD: return "ST_ERR_SHARD";
    case ST_ERR_FORMAT: return "ST_ERR_FORMAT";
    case ST_ERR_INTERNAL: return "ST_ERR_INTERNAL";
    default: return "an unknown status";
  }
}

const char* st_dtype_name(st_dtype dtype) {
  const bool known = dtype > 0 && static_cast<std::size_t>(dtype) < kDtypes.size();
  return kDtypes[known ? static_cast<std::size_t>(dtype) : 0].name.data();
}

uint32_t st_dtype_bits(st_dtype dtype) {
  const bool known = dtype > 0 && static_cast<std::size_t>(dtype) < kDtypes.size();
  return known ? kDtypes[static_cast<std::size_t>(dtype)].bits : 0;
}

st_dtype st_dtype_from_name(const char* name, size_t len) {
  return name == nullptr ? ST_DTYPE_UNKNOWN : static_cast<st_dtype>(dtype_from_name({name, len}));
}

}  // extern "C"
