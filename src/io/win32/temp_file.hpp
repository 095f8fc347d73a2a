// The names that files have while they wait to take their target's place: ".NAME.st-new-" and 16 random digits.
//
// A new file is marked for deletion until it is complete: if its process dies, the system removes it, and nobody else
// can open it meanwhile. A process that dies in the moment between complete and in its place leaves one behind, which is
// told by nobody having it open.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "io/win32/handle.hpp"

namespace st::io {

// A native path: its folder and its name.
struct Place {
  std::wstring folder;
  std::wstring name;

  std::wstring path() const;
};

// Removes what dead writers of this target left behind. A folder of many files is not read to its end.
void sweep_temp_files(const Place& target);

// A free name beside the target.
std::wstring temp_path(const Place& target);

// Marked for deletion. Leaves the system's last error where there is none.
Handle create_temp_file(const Place& target);

// Each of these returns 0 or the error.

// Whether the file goes when its last handle does.
int set_deleted(HANDLE file, bool deleted);

// The one step that changes what the target is.
int rename_temp_file(HANDLE file, const std::wstring& path, bool replace);

// The same over a file that is open elsewhere, on systems that refuse to replace such a file in one step: the old file
// steps aside first, and back if the new one cannot take its place.
int rename_over_open_file(HANDLE file, const Place& target);

}  // namespace st::io
