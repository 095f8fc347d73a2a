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

// src and dst have n elements each, at any alignment, and do not overlap. Throws Status::unsupported unless `to` is
// convertible (dtypes.def) and `from` is convertible or a packed float.
void convert(Dtype from, const std::byte* src, Dtype to, std::byte* dst, std::size_t n,
             Vectors vectors = Vectors::best);

// Multiplies each value by its block's scale and by an F32, unless that is null. The last block may be shorter.
// Throws Status::unsupported as convert() does, or unless scale_dtype is convertible. block > 0.
void convert_scaled(Dtype from, const std::byte* src, Dtype scale_dtype, const std::byte* scales, std::size_t block,
                    const std::byte* global_scale, Dtype to, std::byte* dst, std::size_t n);

}  // namespace st
