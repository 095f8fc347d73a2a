// SPDX-License-Identifier: Apache-2.0
#include "io/win32/byte_lock.hpp"

#include <algorithm>
#include <thread>

namespace st::io {

namespace {

constexpr std::uint64_t kFirstByte = std::uint64_t{1} << 62;

}  // namespace

int lock_byte(HANDLE file, LockedByte byte, bool exclusive, std::chrono::milliseconds patience) {
  using std::chrono::microseconds;
  using std::chrono::steady_clock;
  const std::uint64_t at = kFirstByte + static_cast<std::uint64_t>(byte);
  const DWORD flags = LOCKFILE_FAIL_IMMEDIATELY | (exclusive ? LOCKFILE_EXCLUSIVE_LOCK : 0U);
  const auto end = steady_clock::now() + patience;
  for (microseconds pause(50);;) {
    OVERLAPPED place{};
    place.Offset = static_cast<DWORD>(at);
    place.OffsetHigh = static_cast<DWORD>(at >> 32);
    if (LockFileEx(file, flags, 0, 1, 0, &place) != FALSE) return 0;
    int error = last_error();
    if (error == ERROR_IO_PENDING) error = ERROR_LOCK_VIOLATION;  // what some systems say for it
    if (error != ERROR_LOCK_VIOLATION || steady_clock::now() > end) return error;
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, microseconds(2000));
  }
}

}  // namespace st::io
