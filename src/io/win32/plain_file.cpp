// SPDX-License-Identifier: Apache-2.0
#include "io/win32/plain_file.hpp"

#include "base/error.hpp"
#include "io/win32/identity.hpp"
#include "io/win32/path.hpp"
#include "io/win32/read_all.hpp"

namespace st::io {

namespace {

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

PlainFile PlainFile::adopt(Handle handle, std::string path) {
  PlainFile file;
  file.handle_ = std::move(handle);
  file.path_ = std::move(path);
  const DWORD type = GetFileType(file.handle());
  if (type != FILE_TYPE_DISK) fail(Status::open, "{} is {}, not a file of tensors", file.shown(), kind_of(type));
  // Of the paths that lead to folders none comes here, but a handle may.
  if (is_folder(file.handle())) fail(Status::open, "{} is a folder, not a file of tensors", file.shown());
  const std::optional<Identity> identity = identity_of(file.handle());  // disks and volumes have none
  if (!identity) fail_os(Status::open, last_error(), "{}", file.shown());
  file.identity_ = *identity;
  file.remote_ = is_remote(file.handle());
  return file;
}

std::optional<PlainFile> PlainFile::open_unless_folder(const std::wstring& native, std::string path) {
  constexpr DWORD kFlags = FILE_FLAG_OVERLAPPED | kNotActedFor;
  Handle handle(CreateFileW(native.c_str(), GENERIC_READ, kShareAll, nullptr, OPEN_EXISTING, kFlags, nullptr));
  if (!handle) {
    const int error = last_error();
    if (is_folder(native)) return std::nullopt;
    fail_os(Status::open, error, "{}", in_quotes(path));
  }
  return adopt(std::move(handle), std::move(path));
}

PlainFile PlainFile::open(const std::wstring& native, std::string path) {
  std::optional<PlainFile> file = open_unless_folder(native, path);
  if (!file) fail(Status::open, "{} is a folder, not a file of tensors", in_quotes(path));
  return std::move(*file);
}

PlainFile PlainFile::duplicate(std::intptr_t handle) {
  const auto theirs = reinterpret_cast<HANDLE>(handle);
  // The number of INVALID_HANDLE_VALUE also stands for the process itself.
  if (theirs == nullptr || theirs == INVALID_HANDLE_VALUE) {
    fail_os(Status::open, ERROR_INVALID_HANDLE, "handle {}", handle);
  }
  const DWORD type = GetFileType(theirs);
  if (type != FILE_TYPE_DISK) {
    const int error = type == FILE_TYPE_UNKNOWN ? last_error() : 0;
    if (error != 0) fail_os(Status::open, error, "handle {}", handle);
    fail(Status::open, "the handle's file is {}, not a file of tensors", kind_of(type));
  }
  Handle own(ReOpenFile(theirs, GENERIC_READ, kShareAll, FILE_FLAG_OVERLAPPED));
  if (own) return adopt(std::move(own), {});
  // Refused where the caller's handle shares the file with nobody, or the file was deleted.
  HANDLE copy = nullptr;
  const HANDLE process = GetCurrentProcess();
  if (DuplicateHandle(process, theirs, process, &copy, 0, FALSE, DUPLICATE_SAME_ACCESS) == FALSE) {
    fail_os(Status::open, last_error(), "handle {}", handle);
  }
  return adopt(Handle(copy), {});
}

std::string PlainFile::shown() const { return path_.empty() ? "the handle's file" : in_quotes(path_); }

void PlainFile::read_at(std::uint64_t offset, void* dst, std::size_t n) const {
  std::size_t got = 0;
  if (const int error = read_all_at(handle(), offset, dst, n, got); error != 0) {
    throw Error{Status::read, error, offset,
                formatted("{}: reading {} bytes at {}: {}", shown(), n, offset, os_error_text(error))};
  }
  if (got != n) {
    fail_at(Status::truncated, offset + got, "{} ends at byte {}: it has become shorter since it was opened", shown(),
            offset + got);
  }
}

Handle PlainFile::reopen(DWORD flags) const {
  return Handle(ReOpenFile(handle(), GENERIC_READ, kShareAll, FILE_FLAG_OVERLAPPED | flags));
}

}  // namespace st::io
