// SPDX-License-Identifier: Apache-2.0
#include "io/win32/read_all.hpp"

#include "io/win32/overlapped_call.hpp"

namespace st::io {

int read_all_at(HANDLE file, std::uint64_t offset, void* dst, std::size_t n, std::size_t& got) {
  got = 0;
  OverlappedCall call;
  if (!call) return last_error();
  while (got < n) {
    DWORD bytes = 0;
    OVERLAPPED* const at = call.at(offset + got);
    const BOOL done = ReadFile(file, static_cast<char*>(dst) + got, OverlappedCall::piece_of(n - got), nullptr, at);
    const int error = call.end(file, done, bytes);
    if (error == ERROR_HANDLE_EOF || (error == 0 && bytes == 0)) return 0;
    if (error != 0) return error;
    got += bytes;
  }
  return 0;
}

}  // namespace st::io
