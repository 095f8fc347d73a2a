// SPDX-License-Identifier: Apache-2.0
#include <fnmatch.h>

#include "pattern.hpp"

namespace cli {

bool matches(const std::string& pattern, const std::string& text) {
  return fnmatch(pattern.c_str(), text.c_str(), FNM_NOESCAPE) == 0;
}

}  // namespace cli
