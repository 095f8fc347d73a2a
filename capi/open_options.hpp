// From the options of the caller to those of the core, for everything that opens files.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/checkpoint.hpp"
#include "safetensors/safetensors.h"

namespace st::capi {

// Of options that may be NULL. Throws.
core::OpenOptions open_options(const st_open_options* given);

}  // namespace st::capi
