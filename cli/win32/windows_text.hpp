// UTF-8, in which the command's text is, and UTF-16, which Windows takes; and what every file of this folder asks it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <windows.h>

#include <memory>
#include <string>

namespace cli {

// Text that is not UTF-8 becomes a path that no file has.
std::wstring wide(const std::string& text);
std::string utf8(const std::wstring& text);

std::string system_words(DWORD error);

struct CloseHandles {
  using pointer = HANDLE;
  void operator()(HANDLE handle) const { CloseHandle(handle); }
};
using Handle = std::unique_ptr<HANDLE, CloseHandles>;

inline Handle handle_of(HANDLE opened) { return Handle(opened == INVALID_HANDLE_VALUE ? nullptr : opened); }

}  // namespace cli
