// Every fault of a header that parse_header() or validate() has refused at its first.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "format/finding.hpp"
#include "format/header_options.hpp"

namespace st::format::safetensors {

// `header` as it is in the file, followed by kPadding zero bytes. Where the text is no JSON, the findings end there, and
// else after kMostFindings and one more.
void survey(std::span<char> header, std::uint64_t file_size, const HeaderOptions& options, Findings& findings);

}  // namespace st::format::safetensors
