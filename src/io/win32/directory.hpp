// Untrusted file names, as the index of a model contains them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace st::io {

// Throws Status::shard if a relative name, with '/' as separator, could lead out of its directory or name something
// that is not a file on Windows:
//   - backslashes, drives and streams (":");
//   - names of devices ("NUL", "com1.txt");
//   - names that the system shortens ("a." is "a");
//   - characters that no file name has.
void require_file_name(std::string_view name);

}  // namespace st::io
