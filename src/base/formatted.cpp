// SPDX-License-Identifier: Apache-2.0
#include "base/formatted.hpp"

namespace st {

std::string formatted_text(fmt::string_view text, fmt::format_args args) { return fmt::vformat(text, args); }

}  // namespace st
