// SPDX-License-Identifier: Apache-2.0
#include "io/win32/file.hpp"

#include <algorithm>
#include <cstring>

#include "base/error.hpp"

namespace st::io {

namespace {

constexpr std::int64_t kTicksPerSecond = 10'000'000;
constexpr std::size_t kMostPerCall = std::size_t{256} << 20;       // because a call pins its buffer's pages
constexpr std::size_t kMostPerStreamCall = std::size_t{32} << 10;  // consoles refuse more than tens of kilobytes

// One ReadFile or WriteFile at an offset. Each call has its own position and event, so threads can share a handle: the
// handle itself would be signaled by whichever call ends first. The handle need not be opened for overlapped I/O.
class OverlappedCall {
 public:
  OverlappedCall() : event_(CreateEventW(nullptr, TRUE, FALSE, nullptr)) {}

  explicit operator bool() const { return static_cast<bool>(event_); }

  static DWORD piece_of(std::size_t n) { return static_cast<DWORD>(std::min(n, kMostPerCall)); }

  OVERLAPPED* at(std::uint64_t offset) {
    overlapped_ = {};
    overlapped_.Offset = static_cast<DWORD>(offset);
    overlapped_.OffsetHigh = static_cast<DWORD>(offset >> 32);
    // If the caller has bound the handle to a completion port, the lowest bit suppresses this call's completion packet.
    overlapped_.hEvent = reinterpret_cast<HANDLE>(reinterpret_cast<std::uintptr_t>(event_.get()) | 1);
    return &overlapped_;
  }

  // Waits for the call to finish; `done` is its return value. Returns 0 or the error.
  int end(HANDLE file, BOOL done, DWORD& bytes) {
    if (done == FALSE && GetLastError() != ERROR_IO_PENDING) return last_error();
    return GetOverlappedResult(file, &overlapped_, &bytes, TRUE) != FALSE ? 0 : last_error();
  }

 private:
  Handle event_;
  OVERLAPPED overlapped_{};
};

void set_time(std::int64_t (&time)[2], const LARGE_INTEGER& ticks) {
  time[0] = ticks.QuadPart / kTicksPerSecond;
  time[1] = ticks.QuadPart % kTicksPerSecond * 100;
}

// ReFS has 128-bit file numbers, NTFS 64-bit ones. FAT's numbers are not stable, because they are positions in the
// directory.
bool set_number(HANDLE file, Identity& identity) {
  FILE_ID_INFO number{};
  if (GetFileInformationByHandleEx(file, FileIdInfo, &number, sizeof number) != FALSE) {
    std::uint64_t halves[2];
    static_assert(sizeof halves == sizeof number.FileId);
    std::memcpy(halves, &number.FileId, sizeof halves);
    identity.device = number.VolumeSerialNumber;
    identity.inode = halves[0] + halves[1] * 0x9E3779B97F4A7C15;
    return true;
  }
  BY_HANDLE_FILE_INFORMATION older{};
  if (GetFileInformationByHandle(file, &older) == FALSE) return false;
  identity.device = older.dwVolumeSerialNumber;
  identity.inode = static_cast<std::uint64_t>(older.nFileIndexHigh) << 32 | older.nFileIndexLow;
  return true;
}

const char* kind_of(DWORD type) {
  switch (type) {
    case FILE_TYPE_PIPE: return "a pipe or a socket";
    case FILE_TYPE_CHAR: return "a console or another character device";
    default: return "not a regular file";
  }
}

bool is_remote(HANDLE file) {
  FILE_REMOTE_PROTOCOL_INFO protocol{};
  return GetFileInformationByHandleEx(file, FileRemoteProtocolInfo, &protocol, sizeof protocol) != FALSE;
}

}  // namespace

std::optional<Identity> identity_of(HANDLE file) {
  Identity identity;
  FILE_BASIC_INFO times{};
  LARGE_INTEGER size{};
  if (!set_number(file, identity) || GetFileSizeEx(file, &size) == FALSE ||
      GetFileInformationByHandleEx(file, FileBasicInfo, &times, sizeof times) == FALSE) {
    return std::nullopt;
  }
  identity.size = static_cast<std::uint64_t>(size.QuadPart);
  set_time(identity.modified, times.LastWriteTime);
  set_time(identity.changed, times.ChangeTime);
  return identity;
}

// ---- reads and writes ---------------------------------------------------------------------------------------------

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
  for (std::size_t put = 0; put < n;) {
    DWORD bytes = 0;
    const auto piece = static_cast<DWORD>(std::min(n - put, kMostPerStreamCall));
    if (WriteFile(stream, static_cast<const char*>(data) + put, piece, &bytes, nullptr) == FALSE) return last_error();
    if (bytes == 0) return ERROR_WRITE_FAULT;
    put += bytes;
  }
  return 0;
}

int sync_now(HANDLE file) { return FlushFileBuffers(file) != FALSE ? 0 : last_error(); }

// ---- regular files ------------------------------------------------------------------------------------------------

RegularFile RegularFile::adopt(Handle handle, std::string path) {
  RegularFile file;
  file.handle_ = std::move(handle);
  file.path_ = std::move(path);
  const DWORD type = GetFileType(file.handle());
  if (type != FILE_TYPE_DISK) fail(Status::open, "{} is {}, not a tensor file", file.shown(), kind_of(type));
  // The path of a directory never gets here, but the caller's handle of a directory may.
  if (is_directory(file.handle())) fail(Status::open, "{} is a directory, not a tensor file", file.shown());
  const std::optional<Identity> identity = identity_of(file.handle());  // disks and volumes have none
  if (!identity) fail_os(Status::open, last_error(), "{}", file.shown());
  file.identity_ = *identity;
  file.remote_ = is_remote(file.handle());
  return file;
}

std::optional<RegularFile> RegularFile::open_unless_directory(const std::wstring& native, std::string path) {
  Handle handle = open_existing(native, GENERIC_READ, FILE_FLAG_OVERLAPPED);
  if (!handle) {
    const int error = last_error();
    if (is_directory(native)) return std::nullopt;
    fail_os(Status::open, error, "{}", in_quotes(path));
  }
  return adopt(std::move(handle), std::move(path));
}

RegularFile RegularFile::open(const std::wstring& native, std::string path) {
  std::optional<RegularFile> file = open_unless_directory(native, path);
  if (!file) fail(Status::open, "{} is a directory, not a tensor file", in_quotes(path));
  return std::move(*file);
}

RegularFile RegularFile::duplicate(std::intptr_t handle) {
  const auto theirs = reinterpret_cast<HANDLE>(handle);
  // INVALID_HANDLE_VALUE is also the pseudo handle of the current process.
  if (theirs == nullptr || theirs == INVALID_HANDLE_VALUE) {
    fail_os(Status::open, ERROR_INVALID_HANDLE, "handle {}", handle);
  }
  const DWORD type = GetFileType(theirs);
  if (type != FILE_TYPE_DISK) {
    const int error = type == FILE_TYPE_UNKNOWN ? last_error() : 0;
    if (error != 0) fail_os(Status::open, error, "handle {}", handle);
    fail(Status::open, "the handle's file is {}, not a tensor file", kind_of(type));
  }
  // Reopening fails if the caller's handle denies sharing, or the file was deleted.
  Handle own(ReOpenFile(theirs, GENERIC_READ, kShareAll, FILE_FLAG_OVERLAPPED));
  if (!own) own = duplicate_handle(theirs);
  if (!own) fail_os(Status::open, last_error(), "handle {}", handle);
  return adopt(std::move(own), {});
}

std::string RegularFile::shown() const { return path_.empty() ? "the handle's file" : in_quotes(path_); }

void RegularFile::read_at(std::uint64_t offset, void* dst, std::size_t n) const {
  std::size_t got = 0;
  if (const int error = read_all_at(handle(), offset, dst, n, got); error != 0) {
    throw Error{Status::read, error, offset,
                formatted("{}: reading {} bytes at {}: {}", shown(), n, offset, os_error_text(error))};
  }
  if (got != n) {
    fail_at(Status::truncated, offset + got, "{} has no byte {}: it has become shorter since it was opened", shown(),
            offset + got);
  }
}

Overwritten RegularFile::overwritten() const {
  const std::optional<Identity> now = identity_of(handle());
  if (!now) return Overwritten::unknown;
  return now->same_bytes(identity_) ? Overwritten::no : Overwritten::yes;
}

Handle RegularFile::reopen(DWORD flags) const {
  return Handle(ReOpenFile(handle(), GENERIC_READ, kShareAll, FILE_FLAG_OVERLAPPED | flags));
}

}  // namespace st::io
