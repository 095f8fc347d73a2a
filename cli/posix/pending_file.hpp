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

// The same for the first names of a list, and then for a folder that was made for them unless that is nullptr. The texts
// must stay until the list is cleared. None is removed until one has been made.
void set_pending_list(int folder, const char* const* names, const char* made_folder);
// From begin to end the file of the next name is being made. If there is a file of that name when a signal comes, it may
// be somebody else's: the signal waits until end_pending() says whether it was made here. A second signal does not wait.
void begin_pending();
void end_pending(bool made);
void clear_pending_list();
// Does what a signal would do to the files and the folder, and clears the list.
void remove_pending_list();

}  // namespace cli
