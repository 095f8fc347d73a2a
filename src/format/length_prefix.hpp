// The place of a header whose length stands in the first eight bytes of the file.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "format/container.hpp"

namespace st::format {

// See Container::header_extent.
HeaderExtent extent_by_length(std::span<const char> prefix, std::uint64_t file_size, const HeaderOptions& options,
                              bool recognized);

}  // namespace st::format
