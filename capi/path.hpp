// A path that is given with its length, as the text with a NUL at its end that the system takes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

#include "guard.hpp"

namespace st::capi {

inline std::string path_of(const char* path, std::size_t len) {
  require(path, "path");
  std::string text(path, len);
  if (text.find('\0') != text.npos) fail(Status::argument, "path {} holds a NUL", in_quotes(text));
  return text;
}

}  // namespace st::capi
