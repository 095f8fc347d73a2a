// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>

namespace cli {

// A check for options that count: decimal digits, up to 2^64-1. The parser's own checks use floating point, print
// limits of 309 digits, and read 010 as 8.
CLI::Validator whole_number();

// The same for sizes: 5GB, 500MB, 4GiB, or a number of bytes. GB are decimal.
CLI::Validator byte_size();

}  // namespace cli
