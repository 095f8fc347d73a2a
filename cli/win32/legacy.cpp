// The readers of cli/legacy use POSIX calls: on Windows, convert takes what the library reads.
// SPDX-License-Identifier: Apache-2.0
#include "legacy/conversion.hpp"

#include "failure.hpp"

namespace cli::legacy {

bool is_legacy(const std::string& path) {
  static_cast<void>(path);
  return false;
}

bool is_legacy_index(const std::string& path) {
  static_cast<void>(path);
  return false;
}

Written convert_file(const Conversion& conversion) {
  throw Failure{kUsage, conversion.from + ": legacy checkpoints are not converted on Windows"};
}

void convert_index(const Conversion& conversion) { convert_file(conversion); }

}  // namespace cli::legacy
