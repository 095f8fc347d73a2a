// SPDX-License-Identifier: Apache-2.0
#include "io/win32/edit_lock.hpp"

#include <algorithm>
#include <thread>

#include "io/win32/identity.hpp"

namespace st::io {

namespace {

constexpr int kMostAttempts = 10;
constexpr std::chrono::milliseconds kPatience(2000);
constexpr std::uint64_t kFirstByte = std::uint64_t{1} << 62;

Handle open_to_lock(const std::wstring& path) {
  return Handle(CreateFileW(path.c_str(), GENERIC_READ | GENERIC_WRITE, kShareAll, nullptr, OPEN_EXISTING,
                            FILE_FLAG_OPEN_REPARSE_POINT | kNotActedFor, nullptr));
}

bool leads_to(const std::wstring& path, HANDLE file) {
  const Handle now(CreateFileW(path.c_str(), FILE_READ_ATTRIBUTES, kShareAll, nullptr, OPEN_EXISTING,
                               FILE_FLAG_OPEN_REPARSE_POINT | kNotActedFor, nullptr));
  const auto here = now ? identity_of(now.get()) : std::nullopt;
  const auto there = identity_of(file);
  return here && there && here->same_file(*there);
}

}  // namespace

int lock_byte(HANDLE file, LockedByte byte, bool exclusive, std::chrono::milliseconds patience) {
  using std::chrono::microseconds;
  const std::uint64_t at = kFirstByte + static_cast<std::uint64_t>(byte);
  const DWORD flags = LOCKFILE_FAIL_IMMEDIATELY | (exclusive ? LOCKFILE_EXCLUSIVE_LOCK : 0U);
  const auto end = std::chrono::steady_clock::now() + patience;
  for (microseconds pause(50);;) {
    OVERLAPPED place{};
    place.Offset = static_cast<DWORD>(at);
    place.OffsetHigh = static_cast<DWORD>(at >> 32);
    if (LockFileEx(file, flags, 0, 1, 0, &place) != FALSE) return 0;
    int error = last_error();
    if (error == ERROR_IO_PENDING) error = ERROR_LOCK_VIOLATION;  // what some systems say for it
    if (error != ERROR_LOCK_VIOLATION || std::chrono::steady_clock::now() > end) return error;
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, microseconds(2000));
  }
}

Handle lock_path(const std::wstring& path, bool exclusive) {
  for (int attempt = 0; attempt < kMostAttempts; ++attempt) {
    Handle file = open_to_lock(path);
    if (!file || lock_byte(file.get(), LockedByte::replace, exclusive, kPatience) != 0) return {};
    if (leads_to(path, file.get())) return file;
  }
  return {};
}

}  // namespace st::io
