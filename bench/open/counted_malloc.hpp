// What this process holds of malloc's memory, and the most it has held.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace bench {

struct Held {
  std::size_t bytes = 0;
  std::size_t peak = 0;
};

Held held_of_malloc();
void forget_peak_of_malloc();

}  // namespace bench
