// Recognises files that are plainly something else, so that the error can say what.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

namespace st::format {

// Throws Status::format when the first bytes are those of another kind of file; returns when they say nothing.
// To be asked only about a file that cannot be a safetensors file: a valid one may begin with any of these bytes.
void refuse_other_kinds(std::span<const char> prefix, std::uint64_t file_size);

}  // namespace st::format
