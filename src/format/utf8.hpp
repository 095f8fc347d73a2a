// Validates UTF-8: no surrogates, no overlong forms.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace st::format {

bool is_utf8(std::string_view text);

// Returns the position of the first bad byte in a text that is not UTF-8.
std::size_t first_not_utf8(std::string_view text);

// Throws Status::utf8 with the offset of the first bad byte. `document` begins at byte `origin` of its file.
void require_utf8(std::string_view text, std::uint64_t origin, std::string_view document);

// The version of simdjson that the library was compiled with.
struct LibraryVersion {
  int major_number;
  int minor_number;
  int patch_number;
};
LibraryVersion simdjson_version();

}  // namespace st::format
