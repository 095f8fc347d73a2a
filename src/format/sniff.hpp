// Recognizes other kinds of files so that the error can name the kind.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

namespace st::format {

// Throws Status::format if the file begins with the signature of another kind of file. Call this only for a file that
// cannot be safetensors: a valid file may begin with any of these bytes.
void refuse_other_kinds(std::span<const char> prefix, std::uint64_t file_size);

}  // namespace st::format
