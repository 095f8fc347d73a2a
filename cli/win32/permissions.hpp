// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "windows_text.hpp"

namespace cli {

// Gives the file `to` the access control list of the file that it is going to replace, if there is one: nobody may do
// with the new file what they could not do with the old one. Returns 0 or the error. `to` needs WRITE_DAC.
DWORD hand_on_permissions(const std::wstring& from, HANDLE to);

}  // namespace cli
