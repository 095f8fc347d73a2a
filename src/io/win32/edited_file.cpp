// SPDX-License-Identifier: Apache-2.0
#include "io/win32/edited_file.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <thread>

#include "base/error.hpp"
#include "io/edited_file.hpp"
#include "io/win32/file_source.hpp"

namespace st::io {

namespace {

using std::chrono::milliseconds;

constexpr int kMostLockAttempts = 10;
constexpr int kMostOpenAttempts = 20;
constexpr milliseconds kLockPatience(2000);
constexpr milliseconds kEditPatience(500);

// The locked bytes, numbered from kFirstByte on.
enum class LockedByte : std::uint8_t {
  edit,     // during a whole edit
  replace,  // from the last look at a file to its replacement
};

constexpr std::uint64_t kFirstByte = std::uint64_t{1} << 62;

// Returns 0, ERROR_LOCK_VIOLATION if another handle holds the lock for longer than `patience`, or another error. Polls,
// because LockFileEx() has no timeout.
int lock_byte(HANDLE file, LockedByte byte, bool exclusive, milliseconds patience) {
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
    if (error == ERROR_IO_PENDING) error = ERROR_LOCK_VIOLATION;  // some systems return it instead
    if (error != ERROR_LOCK_VIOLATION || steady_clock::now() > end) return error;
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, microseconds(2000));
  }
}

// Whether the path leads to this file. `flags`: FILE_FLAG_OPEN_REPARSE_POINT not to follow a link.
bool leads_to(const std::wstring& path, DWORD flags, HANDLE file) {
  const Handle now = open_existing(path, FILE_READ_ATTRIBUTES, flags);
  const auto here = now ? identity_of(now.get()) : std::nullopt;
  const auto there = identity_of(file);
  return here && there && here->same_file(*there);
}

}  // namespace

// ---- the lock around a replacement --------------------------------------------------------------------------------

EditLock EditLock::of_path(const std::wstring& path, bool exclusive) {
  EditLock lock;
  // While this waits for the lock, the holder may replace the file.
  for (int attempt = 0; attempt < kMostLockAttempts; ++attempt) {
    Handle file =
        open_existing(path, exclusive ? GENERIC_READ | GENERIC_WRITE : GENERIC_READ, FILE_FLAG_OPEN_REPARSE_POINT);
    lock.error_ = file ? lock_byte(file.get(), LockedByte::replace, exclusive, kLockPatience) : last_error();
    if (lock.error_ != 0) return lock;
    if (!leads_to(path, FILE_FLAG_OPEN_REPARSE_POINT, file.get())) continue;
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

// ---- the file of an edit ------------------------------------------------------------------------------------------
//
// patch() always refuses, so an edit writes a new file. To detect half of an edit in place, a reader would need a file
// time that is set before the bytes change. Windows has no such time.

struct EditedFile::State {
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
  // While this waits for the lock, another edit may replace the file.
  for (int attempt = 0; attempt < kMostOpenAttempts; ++attempt) {
    auto edited = std::make_unique<State>();
    PlainFile plain = PlainFile::open(native, path);
    // By handle: the path may lead to another file by now. Fails for a read-only file.
    edited->file = Handle(ReOpenFile(plain.handle(), GENERIC_READ | GENERIC_WRITE, kShareAll, 0));
    if (!edited->file) fail_os(Status::open, last_error(), "{}", plain.shown());
    if (lock_byte(edited->file.get(), LockedByte::edit, true, kEditPatience) == ERROR_LOCK_VIOLATION) {
      fail(Status::state, "{} is being edited by another process", plain.shown());
    }
    const auto seen = identity_of(edited->file.get());
    if (!seen) fail_os(Status::open, last_error(), "{}", plain.shown());
    if (!leads_to(native, FILE_FLAG_BACKUP_SEMANTICS, edited->file.get())) continue;
    edited->seen = *seen;
    edited->source = std::make_unique<FileSource>(std::move(plain), 0, seen->size);
    return EditedFile(std::move(edited));
  }
  fail(Status::state, "{} was replaced each of {} times that it was opened", in_quotes(path), kMostOpenAttempts);
}

EditedFile::Patch EditedFile::patch(std::uint64_t /*offset*/, const void* /*data*/, std::size_t /*n*/, bool /*sync*/) {
  return Patch::refused;
}

}  // namespace st::io
