// bintensors: a binary header (docs/format.md 3), of two layouts.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "format/container.hpp"

namespace st::format::bintensors {

extern const Container kContainer;     // reads both layouts, writes the current one
extern const Container kOldContainer;  // files of the layout before 0.1; kContainer.read finds out which layout it is

}  // namespace st::format::bintensors
