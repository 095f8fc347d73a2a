// Values of one float dtype as values of another.
//
// The results are those of ml_dtypes and numpy. The public header tells the rules (st_convert).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/dtype.hpp"

namespace st {

enum class Vectors : std::uint8_t { best, of_every_processor };  // the second is there to be tested

// src and dst hold n elements each, at any alignment, and do not overlap. Throws Status::unsupported unless both dtypes
// are floats of 8 bits or more.
void convert(Dtype from, const std::byte* src, Dtype to, std::byte* dst, std::size_t n,
             Vectors vectors = Vectors::best);

}  // namespace st
