// UTF-8, in which paths come and messages go, and UTF-16, which Windows takes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace st::io {

// nullopt if the text is not UTF-8.
std::optional<std::wstring> to_wide(std::string_view text);

// nullopt if the text is not UTF-16: names of files may be any 16-bit numbers.
std::optional<std::string> to_utf8(std::wstring_view text);

}  // namespace st::io
