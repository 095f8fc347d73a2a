// Paths as the system takes them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace st::io {

// The absolute path, so that a later change of the working directory changes nothing, and beyond 260 characters in the
// form that has no such limit. Throws Status::utf8 if the path is not UTF-8.
std::wstring native_path(std::string_view path);

// `name` in this folder, which is a native path.
std::wstring below(const std::wstring& folder, std::wstring_view name);

bool is_folder(const std::wstring& path);
bool is_folder(void* file);

// Where the open file lies, links resolved. Empty if the system does not say, as older versions of wine beyond 260
// characters.
std::wstring final_path(void* file);

// The same from the root of its volume on.
std::wstring path_on_volume(void* file);

}  // namespace st::io
