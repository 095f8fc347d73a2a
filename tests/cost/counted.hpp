// The cost of a call, counted rather than timed, so the result is the same on a busy machine.
//
// Work is the number of basic blocks that run in src/format and src/core, which this program compiles with
// -fsanitize-coverage=trace-pc, and the number of cache lines that memcpy and similar functions are called for. Memory
// is the peak number of allocated bytes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>

#include "core/memory.hpp"

namespace st::cost {

struct Cost {
  std::uint64_t work = 0;
  std::uint64_t bytes = 0;
};

Cost cost_of(const std::function<void()>& call);

// malloc's blocks are seen only when they come from here.
core::Allocator counted_allocator();

}  // namespace st::cost
