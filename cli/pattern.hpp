// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace cli {

// Returns what is wrong with a shell pattern, or nothing. For fnmatch an invalid pattern just matches no name.
std::string fault_of_pattern(std::string_view pattern);

}  // namespace cli
