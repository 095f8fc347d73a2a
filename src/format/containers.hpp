// The container formats that this library knows.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "format/container.hpp"

namespace st::format {

// nullptr if there is none of this number.
const Container* container_of(Format format);

// The one whose header begins so; nullptr if there is none. By the reference's rules there is only safetensors.
const Container* recognize(char first, Rules rules);

}  // namespace st::format
