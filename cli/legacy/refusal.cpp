// SPDX-License-Identifier: Apache-2.0
#include "refusal.hpp"

#include "text.hpp"

namespace cli::legacy {

void throw_refusal(ExitCode code, std::uint64_t offset, fmt::string_view text, fmt::format_args args) {
  throw Refusal{offset, st::formatted_text(text, args), code};
}

Failure failure_in(const std::string& path, const Refusal& refusal) {
  std::string line = path + ": " + refusal.message;
  if (refusal.offset != kNowhere) line += formatted(" (byte {})", refusal.offset);
  return {refusal.code, line};
}

}  // namespace cli::legacy
