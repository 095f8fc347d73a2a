// SPDX-License-Identifier: Apache-2.0
#include "io/win32/edited_file.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <thread>

#include "base/error.hpp"
#include "io/edited_file.hpp"
#include "io/win32/file_source.hpp"

namespace st::io {

namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLockPatience(2000);
constexpr milliseconds kEditPatience(500);

// The bytes used for locks, starting at kFirstByte.
enum class LockedByte : std::uint8_t {
  edit,     // during a whole edit
  replace,  // from the last check of a file to its replacement
};

constexpr std::uint64_t kFirstByte = std::uint64_t{1} << 62;

// Returns 0, ERROR_LOCK_VIOLATION if another handle holds the lock, or another error.
int try_lock(HANDLE file, LockedByte byte, bool exclusive) {
  const std::uint64_t at = kFirstByte + static_cast<std::uint64_t>(byte);
  OVERLAPPED place{};
  place.Offset = static_cast<DWORD>(at);
  place.OffsetHigh = static_cast<DWORD>(at >> 32);
  const DWORD flags = LOCKFILE_FAIL_IMMEDIATELY | (exclusive ? LOCKFILE_EXCLUSIVE_LOCK : 0U);
  if (LockFileEx(file, flags, 0, 1, 0, &place) != FALSE) return 0;
  const int error = last_error();
  return error == ERROR_IO_PENDING ? ERROR_LOCK_VIOLATION : error;  // some versions return this instead
}

// Whether the path leads to this file. flags: FILE_FLAG_OPEN_REPARSE_POINT to not follow links.
bool leads_to(const std::wstring& path, DWORD flags, HANDLE file) {
  const Handle now = open_existing(path, FILE_READ_ATTRIBUTES, flags);
  const auto here = now ? identity_of(now.get()) : std::nullopt;
  const auto there = identity_of(file);
  return here && there && here->same_file(*there);
}

// Opens a file and locks one byte of it. If the lock's holder replaces the file in the meantime, opens the new file.
// Returns 0, the last error of open(), or the error of the lock: ERROR_LOCK_VIOLATION after `patience`. Polls, because
// LockFileEx() has no timeout.
template <class Open, class IsCurrent>
int open_locked(Handle& file, LockedByte byte, bool exclusive, milliseconds patience, const Open& open,
                const IsCurrent& is_current) {
  using std::chrono::microseconds;
  using std::chrono::steady_clock;
  const auto end = steady_clock::now() + patience;
  for (microseconds pause(50);;) {
    if (!file) file = open();
    if (!file) return last_error();
    const int error = try_lock(file.get(), byte, exclusive);
    if (error == 0 && is_current(file.get())) return 0;
    if (error != 0 && error != ERROR_LOCK_VIOLATION) return error;
    if (steady_clock::now() > end) return ERROR_LOCK_VIOLATION;
    if (error == 0) file.close();
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, microseconds(2000));
  }
}

}  // namespace

// ---- the lock around a replacement --------------------------------------------------------------------------------

EditLock EditLock::of_path(const std::wstring& path, bool exclusive) {
  constexpr DWORD kItself = FILE_FLAG_OPEN_REPARSE_POINT;
  const DWORD access = exclusive ? GENERIC_READ | GENERIC_WRITE : GENERIC_READ;
  EditLock lock;
  lock.error_ = open_locked(
      lock.file_, LockedByte::replace, exclusive, kLockPatience, [&] { return open_existing(path, access, kItself); },
      [&](HANDLE file) { return leads_to(path, kItself, file); });
  if (lock.error_ != 0) lock.file_.close();
  return lock;
}

void EditLock::require(const std::string& shown) const {
  if (held() || error_ == ERROR_NOT_SUPPORTED || error_ == ERROR_INVALID_FUNCTION) return;
  if (error_ == ERROR_LOCK_VIOLATION) fail_os(Status::state, error_, "{} is locked by another process", shown);
  fail_os(Status::write, error_, "{} cannot be locked", shown);
}

// ---- the file of an edit ------------------------------------------------------------------------------------------
//
// patch() always refuses, so a metadata edit always writes a new file. Readers could detect a half-finished edit in
// place only by a file time that is set before the bytes change. Windows has no such time.

struct EditedFile::State {
  std::string shown;
  std::unique_ptr<Source> source;
  Handle file;  // holds the lock
  Identity seen;
};

EditedFile::EditedFile(std::unique_ptr<State> state) : state_(std::move(state)) {}
EditedFile::EditedFile(EditedFile&& other) noexcept = default;
EditedFile::~EditedFile() = default;

std::unique_ptr<Source> EditedFile::take_source() { return std::move(state_->source); }
const Identity& EditedFile::seen() const { return state_->seen; }

EditedFile EditedFile::open(const char* path) {
  const std::wstring native = native_path(path);
  auto edited = std::make_unique<State>();
  std::optional<RegularFile> plain;
  const auto open = [&] {
    plain = RegularFile::open(native, path);
    // Reopen by handle, because the path may lead to another file by now. This fails for a read-only file.
    return Handle(ReOpenFile(plain->handle(), GENERIC_READ | GENERIC_WRITE, kShareAll, 0));
  };
  const int error = open_locked(edited->file, LockedByte::edit, /*exclusive=*/true, kEditPatience, open,
                                [&](HANDLE file) { return leads_to(native, FILE_FLAG_BACKUP_SEMANTICS, file); });
  if (error == ERROR_LOCK_VIOLATION) fail(Status::state, "{} is being edited by another process", plain->shown());
  if (!edited->file) fail_os(Status::open, error, "{}", plain->shown());
  // Any other error means that the filesystem has no locks.
  const auto seen = identity_of(edited->file.get());
  if (!seen) fail_os(Status::open, last_error(), "{}", plain->shown());
  edited->seen = *seen;
  edited->shown = plain->shown();
  edited->source = std::make_unique<FileSource>(std::move(*plain), 0, seen->size);
  return EditedFile(std::move(edited));
}

EditedFile::Patch EditedFile::patch(std::uint64_t /*offset*/, const void* /*data*/, std::size_t /*n*/, bool /*sync*/) {
  return Patch::refused;
}

bool EditedFile::is_as_seen() const {
  const auto now = identity_of(state_->file.get());
  return now && *now == state_->seen;
}

bool EditedFile::overwrite(const std::string& what, std::uint64_t offset, const void* data, std::size_t n, bool sync) {
  if (!is_as_seen()) return false;
  const HANDLE file = state_->file.get();
  if (const int error = write_all_at(file, offset, data, n); error != 0) {
    throw Error{Status::write, error, offset,
                formatted("{} may contain a part of the new bytes: writing {} bytes to {}: {}", what, n, state_->shown,
                          os_error_text(error))};
  }
  if (const int error = sync ? sync_now(file) : 0; error != 0) {
    fail_os(Status::write, error, "{} was written to {}, but may not have reached the disk", what, state_->shown);
  }
  return true;
}

void EditedFile::sync() const {
  if (FlushFileBuffers(state_->file.get()) != 0) return;
  fail_os(Status::write, last_error(), "{} has the new metadata, but it may not be on the disk", state_->shown);
}

}  // namespace st::io
