// Shell patterns: *, ?, [a-z], [!a-z] and [[:digit:]], of characters in UTF-8. Classes hold only characters of ASCII. A
// backslash is an ordinary character.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace cli {

// Returns whether the whole text matches a valid pattern, as fnmatch() with FNM_NOESCAPE does.
bool matches(std::string_view pattern, std::string_view text);

// Returns an error message for an invalid pattern, otherwise "".
std::string fault_of_pattern(std::string_view pattern);

}  // namespace cli
