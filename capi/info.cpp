// The version of the library, names of statuses, and dtypes: names, sizes and conversions.
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <limits>

#include "base/convert.hpp"
#include "base/dtype.hpp"
#include "base/error.hpp"
#include "format/utf8.hpp"
#include "guard.hpp"
#include "safetensors/safetensors.h"

using namespace st;
using namespace st::capi;

#ifndef ST_MINIMAL
namespace {

void check_elements(const void* src, const void* dst, size_t n) {
  if (n > 0) require(src, "src");
  if (n > 0) require(dst, "dst");
  if (n > std::numeric_limits<size_t>::max() / sizeof(double))
    fail(Status::overflow, "{} elements do not fit in memory", n);
}

const std::byte* bytes_of(const void* elements) { return static_cast<const std::byte*>(elements); }

}  // namespace
#endif

extern "C" {

uint32_t st_version(void) { return ST_VERSION_NUMBER; }

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

const char* st_status_name(st_status status) { return status_name(static_cast<Status>(status)); }

const char* st_dtype_name(st_dtype dtype) { return info(dtype_from_number(dtype)).name.data(); }

uint32_t st_dtype_bits(st_dtype dtype) { return info(dtype_from_number(dtype)).bits; }

st_dtype st_dtype_from_name(const char* name, size_t len) {
  return name == nullptr ? ST_DTYPE_UNKNOWN : static_cast<st_dtype>(dtype_from_name({name, len}));
}

#ifndef ST_MINIMAL
st_status st_convert(st_dtype from, const void* src, st_dtype to, void* dst, size_t n, st_error* err) {
  return guard(err, [&] {
    check_elements(src, dst, n);
    convert(dtype_from_number(from), bytes_of(src), dtype_from_number(to), static_cast<std::byte*>(dst), n);
  });
}

st_status st_convert_scaled(st_dtype from, const void* src, st_dtype scale_dtype, const void* scales, size_t block,
                            const void* global_scale, st_dtype to, void* dst, size_t n, st_error* err) {
  return guard(err, [&] {
    check_elements(src, dst, n);
    if (n > 0) require(scales, "scales");
    if (block == 0) fail(Status::argument, "block is 0");
    convert_scaled(dtype_from_number(from), bytes_of(src), dtype_from_number(scale_dtype), bytes_of(scales), block,
                   bytes_of(global_scale), dtype_from_number(to), static_cast<std::byte*>(dst), n);
  });
}
#endif

}  // extern "C"
