// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace cli {

// Checks the text of an option that counts: decimal digits, up to 2^64-1. Returns what is wrong with it, or writes it
// without leading zeros and returns nothing. The parser's own checks use floating point, print limits of 309 digits, and
// read 010 as 8.
std::string to_whole_number(std::string& text);

// The same for sizes: 5GB, 500MB, 4GiB, or a number of bytes. GB are decimal.
std::string to_bytes(std::string& text);

}  // namespace cli
