// safetensors: a header of JSON (docs/format.md 1).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "format/container.hpp"

namespace st::format::safetensors {

extern const Container kContainer;

}  // namespace st::format::safetensors
