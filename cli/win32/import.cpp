// cli/import needs POSIX. On Windows, convert reads only the library's own formats.
// SPDX-License-Identifier: Apache-2.0
#include "import/import.hpp"

#include "failure.hpp"

namespace cli::importer {

bool is_importable(const std::string& path) {
  static_cast<void>(path);
  return false;
}

bool is_importable_index(const std::string& path) {
  static_cast<void>(path);
  return false;
}

std::string checkpoint_in(const std::string& path) { return path; }

Imported import_file(const Import& request) {
  throw Failure{kUsage, request.from + ": cannot convert this format on Windows"};
}

void import_index(const Import& request) { import_file(request); }

}  // namespace cli::importer
