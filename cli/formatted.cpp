// SPDX-License-Identifier: Apache-2.0
#include "formatted.hpp"

#include <fmt/format.h>

namespace cli {

std::string formatted_text(fmt::string_view text, fmt::format_args args) { return fmt::vformat(text, args); }

}  // namespace cli
