// Who may do what with a file, handed on to the file that takes its place: owner, group, mode, access control lists,
// and the other extended attributes that do not speak of the bytes.
//
// The group bits in the mode of a file with an access control list are the most that the list may grant, so a group that
// the list shuts out would be let in by them. If a list cannot be read or copied, only the owner keeps access.
//
// Rights to run the program in the file as somebody else (set-user-id, capabilities) end with its bytes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "io/posix/attributes.hpp"

namespace st::io {

struct Access {
  uid_t owner = 0;
  gid_t group = 0;
  mode_t mode = 0;
  Attributes attributes;
};

// Nothing when there is no regular file of this name. Throws Status::open when its owner and mode cannot be read.
std::optional<Access> access_of(int folder, const std::string& name);

// Narrows what cannot be handed on as it is, so that nobody gains by it. `file` must be open to its owner at most.
// 0, or the errno of a mode that could not be set.
int give_access(int file, const Access& access);

}  // namespace st::io
