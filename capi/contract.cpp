// The numbers of the public header and those of the core are the same, and the ABI is what it was. The core may not
// include the header, so this file holds the two together at compile time.
// SPDX-License-Identifier: Apache-2.0
#include <cstddef>

#include "base/dtype.hpp"
#include "base/error.hpp"
#include "format/table.hpp"
#include "safetensors/safetensors.h"

namespace st {

namespace {

consteval bool same(Status core, st_status number) { return static_cast<st_status>(core) == number; }
consteval bool same(Dtype core, st_dtype number) {
  return static_cast<st_dtype>(core) == number && info(core).dtype == core;
}

consteval bool same(Format core, st_format number) { return static_cast<st_format>(core) == number; }

static_assert(same(Status::ok, ST_OK));
static_assert(same(Status::argument, ST_ERR_ARGUMENT) && same(Status::struct_size, ST_ERR_STRUCT_SIZE));
static_assert(same(Status::unsupported, ST_ERR_UNSUPPORTED) && same(Status::not_found, ST_ERR_NOT_FOUND));
static_assert(same(Status::range, ST_ERR_RANGE) && same(Status::buffer_size, ST_ERR_BUFFER_SIZE));
static_assert(same(Status::state, ST_ERR_STATE) && same(Status::cancelled, ST_ERR_CANCELLED));
static_assert(same(Status::no_memory, ST_ERR_NO_MEMORY) && same(Status::open, ST_ERR_OPEN));
static_assert(same(Status::read, ST_ERR_READ) && same(Status::write, ST_ERR_WRITE));
static_assert(same(Status::map, ST_ERR_MAP) && same(Status::callback, ST_ERR_CALLBACK));
static_assert(same(Status::truncated, ST_ERR_TRUNCATED) && same(Status::header_size, ST_ERR_HEADER_SIZE));
static_assert(same(Status::utf8, ST_ERR_UTF8) && same(Status::json, ST_ERR_JSON));
static_assert(same(Status::schema, ST_ERR_SCHEMA) && same(Status::duplicate, ST_ERR_DUPLICATE));
static_assert(same(Status::dtype, ST_ERR_DTYPE) && same(Status::offsets, ST_ERR_OFFSETS));
static_assert(same(Status::overflow, ST_ERR_OVERFLOW) && same(Status::misaligned, ST_ERR_MISALIGNED));
static_assert(same(Status::tensor_size, ST_ERR_TENSOR_SIZE) && same(Status::coverage, ST_ERR_COVERAGE));
static_assert(same(Status::shard, ST_ERR_SHARD) && same(Status::format, ST_ERR_FORMAT));
static_assert(same(Status::internal, ST_ERR_INTERNAL));

static_assert(same(Dtype::unknown, ST_DTYPE_UNKNOWN) && same(Dtype::BOOL, ST_BOOL));
static_assert(same(Dtype::U8, ST_U8) && same(Dtype::I8, ST_I8) && same(Dtype::U16, ST_U16));
static_assert(same(Dtype::I16, ST_I16) && same(Dtype::U32, ST_U32) && same(Dtype::I32, ST_I32));
static_assert(same(Dtype::U64, ST_U64) && same(Dtype::I64, ST_I64) && same(Dtype::F16, ST_F16));
static_assert(same(Dtype::BF16, ST_BF16) && same(Dtype::F32, ST_F32) && same(Dtype::F64, ST_F64));
static_assert(same(Dtype::C64, ST_C64) && same(Dtype::F8_E4M3, ST_F8_E4M3) && same(Dtype::F8_E5M2, ST_F8_E5M2));
static_assert(same(Dtype::F8_E8M0, ST_F8_E8M0) && same(Dtype::F8_E4M3FNUZ, ST_F8_E4M3FNUZ));
static_assert(same(Dtype::F8_E5M2FNUZ, ST_F8_E5M2FNUZ) && same(Dtype::F6_E2M3, ST_F6_E2M3));
static_assert(same(Dtype::F6_E3M2, ST_F6_E3M2) && same(Dtype::F4, ST_F4));

static_assert(same(Format::safetensors, ST_FORMAT_SAFETENSORS) && same(Format::bintensors, ST_FORMAT_BINTENSORS));
static_assert(same(Format::bintensors_old, ST_FORMAT_BINTENSORS_OLD));

static_assert(sizeof(st_read_options) == 56 && offsetof(st_read_options, progress) == 40);
static_assert(sizeof(st_error) == 256 && offsetof(st_error, message) == 24);

}  // namespace

}  // namespace st
