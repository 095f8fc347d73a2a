// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "format/length_prefix.hpp"

namespace st::format {

// The bytes of a file before its data.
inline std::string file_front(const std::string& header) {
  std::string bytes(kLengthBytes, '\0');
  store_length(bytes.data(), header.size());
  return bytes + header;
}

}  // namespace st::format
