// Checks untrusted file names from a model's index.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace st::io {

// Throws Status::shard if a relative name, with '/' as separator, could lead out of its directory or name something
// that is not a file on Windows:
//   - backslashes, drives and streams (":");
//   - names of devices ("NUL", "com1.txt");
//   - names that Windows shortens ("a." becomes "a");
//   - characters that are invalid in file names.
void require_file_name(std::string_view name);

}  // namespace st::io
