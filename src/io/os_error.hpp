// What the core must know of the system's error numbers: errno on POSIX systems, GetLastError() on Windows. Their text
// is os_error_text() of base/error.hpp, which each system defines.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace st::io {

// The error of a path that leads nowhere.
int no_such_file();
bool is_no_such_file(int os_error);

int out_of_memory();

}  // namespace st::io
