// Text with values in it: formatted("{} of {}", n, all).
//
// fmt is header-only here, and fmt::format makes the compiler translate all of it in each file that calls it. This function
// hands the values on to the one file that does.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <fmt/core.h>

namespace cli {

std::string formatted_text(fmt::string_view text, fmt::format_args args);

template <class... Args>
std::string formatted(fmt::format_string<Args...> text, const Args&... args) {
  return formatted_text(text, fmt::make_format_args(args...));
}

}  // namespace cli
