// Removes the one file that a command has begun and not finished if a signal ends the process.
//
// The process then ends by that signal, as it would have without the file.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace cli {

// From now on SIGHUP, SIGINT, SIGQUIT, SIGTERM and SIGXCPU remove `name` from `folder`, a descriptor that stays open.
void set_pending(int folder, const std::string& name);
void clear_pending();

}  // namespace cli
