// SPDX-License-Identifier: Apache-2.0
#include "io/win32/write_all.hpp"

#include "io/win32/overlapped_call.hpp"

namespace st::io {

int write_all_at(HANDLE file, std::uint64_t offset, const void* data, std::size_t n) {
  OverlappedCall call;
  if (!call) return last_error();
  for (std::size_t put = 0; put < n;) {
    DWORD bytes = 0;
    OVERLAPPED* const at = call.at(offset + put);
    const char* const from = static_cast<const char*>(data) + put;
    const BOOL done = WriteFile(file, from, OverlappedCall::piece_of(n - put), nullptr, at);
    const int error = call.end(file, done, bytes);
    if (error != 0) return error;
    if (bytes == 0) return ERROR_WRITE_FAULT;
    put += bytes;
  }
  return 0;
}

int write_all(HANDLE stream, const void* data, std::size_t n) {
  constexpr std::size_t kMostAtOnce = std::size_t{32} << 10;  // consoles refuse more than some tens of kilobytes
  for (std::size_t put = 0; put < n;) {
    DWORD bytes = 0;
    const auto piece = static_cast<DWORD>(std::min(n - put, kMostAtOnce));
    if (WriteFile(stream, static_cast<const char*>(data) + put, piece, &bytes, nullptr) == FALSE) return last_error();
    if (bytes == 0) return ERROR_WRITE_FAULT;
    put += bytes;
  }
  return 0;
}

int sync_now(HANDLE file) { return FlushFileBuffers(file) != FALSE ? 0 : last_error(); }

}  // namespace st::io
