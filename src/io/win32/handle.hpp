// A handle that is closed when it goes. Windows has two values for none, NULL and INVALID_HANDLE_VALUE: here it is NULL.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <windows.h>

#include <utility>

namespace st::io {

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

// Others may read, write, rename, replace and delete what this library has open, as on POSIX systems.
inline constexpr DWORD kShareAll = FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE;

// The server of a named pipe that somebody passes for a file may learn who we are, and not act as us.
inline constexpr DWORD kNotActedFor = SECURITY_SQOS_PRESENT | SECURITY_IDENTIFICATION;

}  // namespace st::io
