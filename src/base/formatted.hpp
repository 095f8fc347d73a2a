// Text with values in it: formatted("{} of {} bytes", n, size).
//
// fmt is header-only here, and fmt::format makes the compiler translate all of it in each file that calls it. This function
// hands the values on to the one file that does.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <type_traits>

#include <fmt/core.h>

namespace st {

std::string formatted_text(fmt::string_view text, fmt::format_args args);

template <class... Args>
std::string formatted(fmt::format_string<Args...> text, const Args&... args) {
  static_assert(!(std::is_floating_point_v<Args> || ...), "fmt is compiled without floats, and would print nothing");
  return formatted_text(text, fmt::make_format_args(args...));
}

}  // namespace st
