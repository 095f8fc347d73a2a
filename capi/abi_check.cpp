// Checks at compile time that the public header and the core have the same constants, because the core may not include
// the header. Also checks the layout of public structs.
// SPDX-License-Identifier: Apache-2.0
#include <cstddef>

#include "base/dtype.hpp"
#include "base/error.hpp"
#include "core/group.hpp"
#include "format/table.hpp"
#include "safetensors/safetensors.h"

namespace st {

namespace {

#define ST_STATUS(name, public_name, number) static_assert(static_cast<st_status>(Status::name) == (public_name));
#include "base/statuses.def"
#undef ST_STATUS

static_assert(static_cast<st_dtype>(Dtype::unknown) == ST_DTYPE_UNKNOWN);
#define ST_DTYPE(name, ...) static_assert(static_cast<st_dtype>(Dtype::name) == ST_##name);
#include "base/dtypes.def"
#undef ST_DTYPE

// Returns 0 for a number without a format. Compilers warn if a format is missing here.
constexpr st_format public_number(format::Format format) {
  switch (format) {
    case format::Format::safetensors: return ST_FORMAT_SAFETENSORS;
    case format::Format::bintensors: return ST_FORMAT_BINTENSORS;
    case format::Format::bintensors_old: return ST_FORMAT_BINTENSORS_OLD;
  }
  return 0;
}

constexpr bool formats_have_the_same_numbers() {
  for (unsigned number = 0; number < 256; ++number) {
    const st_format known = public_number(static_cast<format::Format>(number));
    if (known != 0 && known != static_cast<st_format>(number)) return false;
  }
  return true;
}
static_assert(formats_have_the_same_numbers());

static_assert(static_cast<st_reduce>(core::Reduce::sum) == ST_REDUCE_SUM);
static_assert(static_cast<st_reduce>(core::Reduce::min) == ST_REDUCE_MIN);
static_assert(static_cast<st_reduce>(core::Reduce::max) == ST_REDUCE_MAX);

// For 64-bit pointers. tests/abi records the layout of every struct in each released version.
static_assert(sizeof(void*) < 8 || (sizeof(st_read_options) == 80 && offsetof(st_read_options, progress) == 40 &&
                                    offsetof(st_read_options, ready) == 56 && offsetof(st_read_options, group) == 64));
static_assert(sizeof(void*) < 8 ||
              (sizeof(st_group) == 40 && offsetof(st_group, rank) == 16 && offsetof(st_group, allreduce) == 24));
static_assert(sizeof(void*) < 8 ||
              (sizeof(st_plan_stats) == 80 && sizeof(st_device_options) == 40 && sizeof(st_device_ops) == 88));
static_assert(sizeof(void*) < 8 ||
              (sizeof(st_write_options) == 48 && offsetof(st_write_options, header_reserve) == 24 &&
               offsetof(st_write_options, ctx) == 32 && offsetof(st_write_options, progress) == 40));
static_assert(sizeof(void*) < 8 ||
              (sizeof(st_source) == 80 && offsetof(st_source, read) == 40 && offsetof(st_source, parallel) == 56 &&
               offsetof(st_source, name) == 48 && offsetof(st_source, chunk_bytes) == 64));
static_assert(sizeof(void*) < 8 || (sizeof(st_store) == 40 && offsetof(st_store, parallel) == 32));
static_assert(sizeof(st_tensor_list) == 16 + 12 * sizeof(void*));
static_assert(sizeof(st_error) == 256 && offsetof(st_error, message) == 24);

}  // namespace

}  // namespace st
