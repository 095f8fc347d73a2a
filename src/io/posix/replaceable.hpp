// What is asked about a path before a file there is replaced, as exactly as the system can tell.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <string>

#include "io/posix/descriptor.hpp"

namespace st::io {

// For *at() calls only; where the system can, also a folder that may not be listed.
Descriptor open_folder_for_lookup(int folder, const char* path);

// A symbolic link, all of it asked at one moment, so that the link cannot be exchanged in between.
struct SymbolicLink {
  struct stat status {};
  std::string text;
};

// 0, or the errno: EAGAIN when it is no link any more.
int read_link(int folder, const std::string& name, SymbolicLink& link);

enum class Hold : std::uint8_t { none, mount_point, append_only };

// What keeps every rename from replacing the file, of what the system tells.
Hold hold_of(int folder, const std::string& name);

// Whether this process may replace the files of others in a sticky folder.
bool may_rename_others_files();

}  // namespace st::io
