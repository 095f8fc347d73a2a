// A file's identity, as the system's answers about an open file say.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <windows.h>

#include <optional>

#include "io/source.hpp"

namespace st::io {

// nullopt for what is no file of a disk; the system's last error says why.
std::optional<Identity> identity_of(HANDLE file);

}  // namespace st::io
