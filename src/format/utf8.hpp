// Strict UTF-8, all of a text at once: no surrogates, no overlong forms.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string_view>

namespace st::format {

bool is_utf8(std::string_view text);

// Where the first bad byte is, in a text that is not UTF-8.
std::size_t first_not_utf8(std::string_view text);

// The simdjson this was compiled with.
struct LibraryVersion {
  int major_number;
  int minor_number;
  int patch_number;
};
LibraryVersion simdjson_version();

}  // namespace st::format
