// Converts values of one float dtype to another.
//
// The results are the same as with ml_dtypes and numpy. The public header describes the rules (st_convert).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/dtype.hpp"

namespace st {

enum class Vectors : std::uint8_t { best, of_every_processor };  // the second is for tests

// src and dst have n elements each, at any alignment, and do not overlap. Throws Status::unsupported unless both dtypes
// are convertible (dtypes.def).
void convert(Dtype from, const std::byte* src, Dtype to, std::byte* dst, std::size_t n,
             Vectors vectors = Vectors::best);

}  // namespace st
