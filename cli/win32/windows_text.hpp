// UTF-8, in which the command's text is, and UTF-16, which Windows takes; and what every file of this folder asks it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <windows.h>

#include <memory>
#include <optional>
#include <string>

namespace cli {

// The absolute path, of any length. Text that is not UTF-8 becomes a path that no file has.
std::wstring native_path(const std::string& path);

// nullopt if the text is not UTF-16: names of files may be any 16-bit numbers.
std::optional<std::string> utf8(const std::wstring& text);

std::string system_words(DWORD error);

struct CloseHandles {
  using pointer = HANDLE;
  void operator()(HANDLE handle) const { CloseHandle(handle); }
};
using Handle = std::unique_ptr<HANDLE, CloseHandles>;

inline Handle handle_of(HANDLE opened) { return Handle(opened == INVALID_HANDLE_VALUE ? nullptr : opened); }

inline constexpr DWORD kShareAll = FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE;

}  // namespace cli
