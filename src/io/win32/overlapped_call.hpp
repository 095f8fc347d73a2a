// One call of ReadFile or WriteFile that begins at an offset, and its end.
//
// Each call gives its own position, so that any number of threads may share a handle, which may be open for overlapped
// work or not. The event is of this call alone: a handle's own is set by whichever of its calls ends first.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "io/win32/handle.hpp"

namespace st::io {

class OverlappedCall {
 public:
  OverlappedCall() : event_(CreateEventW(nullptr, TRUE, FALSE, nullptr)) {}

  explicit operator bool() const { return static_cast<bool>(event_); }

  // How many of n bytes one call takes: their number has 32 bits, and the system pins the pages of the buffer.
  static DWORD piece_of(std::size_t n) {
    constexpr std::size_t kMostAtOnce = std::size_t{256} << 20;
    return static_cast<DWORD>(std::min(n, kMostAtOnce));
  }

  OVERLAPPED* at(std::uint64_t offset) {
    overlapped_ = {};
    overlapped_.Offset = static_cast<DWORD>(offset);
    overlapped_.OffsetHigh = static_cast<DWORD>(offset >> 32);
    // The lowest bit keeps the answer from a completion port, to which the caller may have bound the handle.
    overlapped_.hEvent = reinterpret_cast<HANDLE>(reinterpret_cast<std::uintptr_t>(event_.get()) | 1);
    return &overlapped_;
  }

  // Waits for what `done` says has begun. 0 or the error.
  int end(HANDLE file, BOOL done, DWORD& bytes) {
    if (done == FALSE && GetLastError() != ERROR_IO_PENDING) return last_error();
    return GetOverlappedResult(file, &overlapped_, &bytes, TRUE) != FALSE ? 0 : last_error();
  }

 private:
  Handle event_;
  OVERLAPPED overlapped_{};
};

}  // namespace st::io
