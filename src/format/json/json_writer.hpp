// Strings and numbers as the reference spells them in JSON.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace st::format::json {

void append_number(std::string& out, std::uint64_t value);

// With its quotes, escaped exactly as the reference does.
void append_string(std::string& out, std::string_view text);

}  // namespace st::format::json
