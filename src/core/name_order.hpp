// Sorting many names that begin alike, as the names of a model do.
//
// Comparing two of them from the front costs two cache misses and fifty bytes that are equal. So names are taken in
// groups: what a whole group has in common is skipped, the next eight bytes become a number, the numbers are sorted,
// and names that still tie are a smaller group.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

namespace st::core {

// Puts numbers in the order of the bytes of their names, which are all different.
void sort_by_name(std::span<std::uint32_t> numbers, const std::function<std::string_view(std::uint32_t)>& name_of);

}  // namespace st::core
