// SPDX-License-Identifier: Apache-2.0
#include "io/win32/edit_lock.hpp"

#include "base/error.hpp"
#include "io/win32/byte_lock.hpp"
#include "io/win32/identity.hpp"

namespace st::io {

namespace {

constexpr int kMostAttempts = 10;
constexpr std::chrono::milliseconds kPatience(2000);

Handle open_itself(const std::wstring& path, DWORD access) {
  return Handle(CreateFileW(path.c_str(), access, kShareAll, nullptr, OPEN_EXISTING,
                            FILE_FLAG_OPEN_REPARSE_POINT | kNotActedFor, nullptr));
}

bool leads_to(const std::wstring& path, HANDLE file) {
  const Handle now = open_itself(path, FILE_READ_ATTRIBUTES);
  const auto here = now ? identity_of(now.get()) : std::nullopt;
  const auto there = identity_of(file);
  return here && there && here->same_file(*there);
}

}  // namespace

EditLock EditLock::of_path(const std::wstring& path, bool exclusive) {
  EditLock lock;
  for (int attempt = 0; attempt < kMostAttempts; ++attempt) {
    Handle file = open_itself(path, exclusive ? GENERIC_READ | GENERIC_WRITE : GENERIC_READ);
    lock.error_ = file ? lock_byte(file.get(), LockedByte::replace, exclusive, kPatience) : last_error();
    if (lock.error_ != 0) return lock;
    if (!leads_to(path, file.get())) continue;
    lock.file_ = std::move(file);
    return lock;
  }
  lock.error_ = ERROR_LOCK_VIOLATION;
  return lock;
}

void EditLock::require(const std::string& shown) const {
  if (held() || error_ == ERROR_NOT_SUPPORTED || error_ == ERROR_INVALID_FUNCTION) return;
  if (error_ == ERROR_LOCK_VIOLATION) fail_os(Status::state, error_, "{} is locked by another process", shown);
  fail_os(Status::write, error_, "{} cannot be locked", shown);
}

}  // namespace st::io
