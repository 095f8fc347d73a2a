// SPDX-License-Identifier: Apache-2.0
#include "io/win32/transfer.hpp"

#include <algorithm>

#include "io/win32/handle.hpp"

namespace st::io {

namespace {

constexpr std::size_t kMostAtOnce = std::size_t{256} << 20;  // the system pins the pages of one call's buffer

// One call that begins at an offset, and its end. The event is of this call alone: a handle's own is set by whichever
// of its calls ends first.
class Call {
 public:
  Call() : event_(CreateEventW(nullptr, TRUE, FALSE, nullptr)) {}

  explicit operator bool() const { return static_cast<bool>(event_); }

  OVERLAPPED* at(std::uint64_t offset) {
    overlapped_ = {};
    overlapped_.Offset = static_cast<DWORD>(offset);
    overlapped_.OffsetHigh = static_cast<DWORD>(offset >> 32);
    // The lowest bit keeps the answer from a completion port, to which the caller may have bound the handle.
    overlapped_.hEvent = reinterpret_cast<HANDLE>(reinterpret_cast<std::uintptr_t>(event_.get()) | 1);
    return &overlapped_;
  }

  // 0 or the error.
  int end(HANDLE file, BOOL done, DWORD& bytes) {
    if (done == FALSE && GetLastError() != ERROR_IO_PENDING) return last_error();
    return GetOverlappedResult(file, &overlapped_, &bytes, TRUE) != FALSE ? 0 : last_error();
  }

 private:
  Handle event_;
  OVERLAPPED overlapped_{};
};

DWORD piece_of(std::size_t n) { return static_cast<DWORD>(std::min(n, kMostAtOnce)); }

}  // namespace

int read_at(HANDLE file, std::uint64_t offset, void* dst, std::size_t n, std::size_t& got) {
  got = 0;
  Call call;
  if (!call) return last_error();
  while (got < n) {
    DWORD bytes = 0;
    OVERLAPPED* const at = call.at(offset + got);
    const BOOL done = ReadFile(file, static_cast<char*>(dst) + got, piece_of(n - got), nullptr, at);
    const int error = call.end(file, done, bytes);
    if (error == ERROR_HANDLE_EOF || (error == 0 && bytes == 0)) return 0;
    if (error != 0) return error;
    got += bytes;
  }
  return 0;
}

int write_at(HANDLE file, std::uint64_t offset, const void* data, std::size_t n) {
  Call call;
  if (!call) return last_error();
  for (std::size_t put = 0; put < n;) {
    DWORD bytes = 0;
    OVERLAPPED* const at = call.at(offset + put);
    const BOOL done = WriteFile(file, static_cast<const char*>(data) + put, piece_of(n - put), nullptr, at);
    const int error = call.end(file, done, bytes);
    if (error != 0) return error;
    if (bytes == 0) return ERROR_WRITE_FAULT;
    put += bytes;
  }
  return 0;
}

int write_next(HANDLE stream, const void* data, std::size_t n) {
  for (std::size_t put = 0; put < n;) {
    DWORD bytes = 0;
    // Consoles refuse more than some tens of kilobytes at once.
    const auto piece = static_cast<DWORD>(std::min(n - put, std::size_t{32} << 10));
    if (WriteFile(stream, static_cast<const char*>(data) + put, piece, &bytes, nullptr) == FALSE) return last_error();
    if (bytes == 0) return ERROR_WRITE_FAULT;
    put += bytes;
  }
  return 0;
}

}  // namespace st::io
