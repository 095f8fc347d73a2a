// Who may do what with a file, and what it is marked as, handed on to the file that takes its place.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "io/win32/handle.hpp"

namespace st::io {

// Returns 0 also where there is no such file by now, or the error: nobody may do with the new file what they could not do
// with the old one.
int take_over_access(const std::wstring& from, HANDLE to);

}  // namespace st::io
