// Removes the files that a command has begun and not finished if a signal ends the process.
//
// The process then ends by that signal, as it would have without the file.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

namespace cli {

// From now on SIGHUP, SIGINT, SIGQUIT, SIGTERM and SIGXCPU remove `name` from `folder`, a descriptor that stays open.
void set_pending(int folder, const std::string& name);
void clear_pending();

// The same for the first `count` of a list of names, and then for a folder that was made for them unless that is nullptr.
// The texts must stay until the list is cleared. The count begins with 0.
void set_pending_list(int folder, const char* const* names, const char* made_folder);
void set_pending_count(std::size_t count);
void clear_pending_list();

}  // namespace cli
