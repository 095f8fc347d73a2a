// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace cli {

// Whether the whole text fits a shell pattern in which a backslash stands for itself: *, ?, [a-z], [!a-z], [[:digit:]].
// Each system has its own: cli/SYSTEM/matches.cpp.
bool matches(const std::string& pattern, const std::string& text);

// Returns what is wrong with a shell pattern, or nothing. An invalid pattern just matches no name.
std::string fault_of_pattern(std::string_view pattern);

}  // namespace cli
