// "did you mean": the word that a person probably wanted to type.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace cli {

// Returns ", did you mean 'WORD'?" with the nearest of these words, or nothing if none is near.
std::string did_you_mean(std::string_view typed, const std::vector<std::string>& words);

}  // namespace cli
