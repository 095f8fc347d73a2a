// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace cli {

// What is wrong with a shell pattern, or nothing. fnmatch does not say: a bad pattern just fits no name.
std::string fault_of_pattern(std::string_view pattern);

}  // namespace cli
