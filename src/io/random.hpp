// A number that the writer of a file cannot know.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace st::io {

std::uint64_t random_seed();

}  // namespace st::io
