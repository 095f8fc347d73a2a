// Windows helpers for this directory: handles, the last error, UTF-16 text and paths.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <windows.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/text.hpp"

namespace st::io {

using st::ends_with;
using st::starts_with;

// Same as in base/text.hpp.
constexpr bool starts_with(std::wstring_view text, std::wstring_view start) {
  return text.substr(0, start.size()) == start;
}
constexpr bool ends_with(std::wstring_view text, std::wstring_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

// Owns a HANDLE and closes it. Windows uses both NULL and INVALID_HANDLE_VALUE for "no handle"; this class uses NULL.
class Handle {
 public:
  Handle() = default;
  explicit Handle(HANDLE handle) : handle_(handle == INVALID_HANDLE_VALUE ? nullptr : handle) {}
  Handle(Handle&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Handle& operator=(Handle&& other) noexcept {
    close();
    handle_ = std::exchange(other.handle_, nullptr);
    return *this;
  }
  ~Handle() { close(); }

  HANDLE get() const { return handle_; }
  explicit operator bool() const { return handle_ != nullptr; }
  void close() {
    if (handle_ != nullptr) CloseHandle(std::exchange(handle_, nullptr));
  }

 private:
  HANDLE handle_ = nullptr;
};

inline int last_error() { return static_cast<int>(GetLastError()); }

// Other processes may read, write, rename, replace and delete files that this library has open, as on POSIX systems.
inline constexpr DWORD kShareAll = FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE;

// Opens an existing file with kShareAll. Returns an empty handle and sets the last error if that fails. If the path is
// a named pipe, its server may identify this process but not impersonate it.
Handle open_existing(const std::wstring& path, DWORD access, DWORD flags);

// Duplicates a handle of this process. Returns an empty handle and sets the last error on failure.
Handle duplicate_handle(HANDLE handle);

// ---- text: UTF-8 in the API and in messages, UTF-16 in calls of the system ----------------------------------------

// Returns nullopt if the text is not UTF-8.
std::optional<std::wstring> to_wide(std::string_view text);

// Returns nullopt if the text is not UTF-16: file names may contain any 16-bit values.
std::optional<std::string> to_utf8(std::wstring_view text);

// ---- paths --------------------------------------------------------------------------------------------------------

// Returns the absolute path, so later changes of the working directory have no effect. A path of more than 260
// characters gets the long form, which has no such limit. Throws Status::utf8 if the path is not UTF-8.
std::wstring native_path(std::string_view path);

// Returns the path of `name` in this directory, which is a native path.
std::wstring below(const std::wstring& directory, std::wstring_view name);

bool is_directory(const std::wstring& path);
bool is_directory(HANDLE file);

// Returns the path of the open file, links resolved. Empty if the system does not report it, for example older versions
// of wine beyond 260 characters.
std::wstring final_path(HANDLE file);

// Same path, relative to the root of its volume.
std::wstring path_on_volume(HANDLE file);

}  // namespace st::io
