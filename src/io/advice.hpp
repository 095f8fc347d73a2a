// What a caller knows about the bytes it will want.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace st::io {

enum class Advice : std::uint8_t { will_need, dont_need };

}  // namespace st::io
