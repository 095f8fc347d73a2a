// st_write_options, as the writer and the editing of metadata both read them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "format/header.hpp"
#include "options.hpp"
#include "safetensors/safetensors.h"

namespace st::capi {

inline st_write_options read_write_options(const st_write_options* given, std::uint32_t known_flags) {
  const st_write_options options = read_struct(given, "st_write_options");
  refuse_unknown_flags(options.flags, known_flags, "st_write_options");
  if (options.format != 0) format::require_writable(options.format);
  if (options.reserved != 0) fail(Status::argument, "options.reserved is {}, not 0", options.reserved);
  if (options.data_alignment != 0) format::require_alignment(options.data_alignment);
  return options;
}

}  // namespace st::capi
