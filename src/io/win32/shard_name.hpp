// Names of files that an index gives, which nobody trusts.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace st::io {

// Throws Status::shard if the name, relative and separated by '/', could lead out of its folder or to something else than
// a file on Windows: backslashes, drives and streams (":"), names of devices ("NUL", "com1.txt"), names that the system
// shortens ("a." is "a"), characters that no file's name has.
void require_file_name(std::string_view name);

}  // namespace st::io
