// SPDX-License-Identifier: Apache-2.0
#include "io/win32/target.hpp"

#include <string_view>

#include "base/error.hpp"
#include "io/win32/path.hpp"

namespace st::io {

namespace {

constexpr int kMostAttempts = 20;

Handle copy_of_standard(DWORD which, const std::string& shown) {
  const HANDLE process = GetCurrentProcess();
  HANDLE copy = nullptr;
  const HANDLE theirs = GetStdHandle(which);
  if (theirs == nullptr || theirs == INVALID_HANDLE_VALUE) fail_os(Status::open, ERROR_INVALID_HANDLE, "{}", shown);
  if (DuplicateHandle(process, theirs, process, &copy, 0, FALSE, DUPLICATE_SAME_ACCESS) == FALSE) {
    fail_os(Status::open, last_error(), "{}", shown);
  }
  return Handle(copy);
}

Place split(const std::wstring& path) {
  const std::size_t slash = path.rfind(L'\\');
  if (slash == path.npos) return {L".", path};
  return {path.substr(0, slash + 1), path.substr(slash + 1)};
}

// Opened for its attributes only, which waits for nobody. Empty with the last error.
Handle look_at(const std::wstring& path, DWORD flags) {
  return Handle(CreateFileW(path.c_str(), FILE_READ_ATTRIBUTES, kShareAll, nullptr, OPEN_EXISTING,
                            FILE_FLAG_BACKUP_SEMANTICS | kNotActedFor | flags, nullptr));
}

// Empty where there is nothing. A path that leads nowhere at one moment and is no link at the next has been replaced
// meanwhile (rename_over_open_file).
Handle look_through_links(const std::wstring& path, const std::string& shown) {
  for (int attempt = 0; attempt < kMostAttempts; ++attempt) {
    Handle file = look_at(path, 0);
    if (file) return file;
    const int error = last_error();
    if (error != ERROR_FILE_NOT_FOUND) fail_os(Status::open, error, "{}", shown);
    const Handle itself = look_at(path, FILE_FLAG_OPEN_REPARSE_POINT);
    if (!itself) return {};
    FILE_BASIC_INFO info{};
    GetFileInformationByHandleEx(itself.get(), FileBasicInfo, &info, sizeof info);
    if ((info.FileAttributes & FILE_ATTRIBUTE_REPARSE_POINT) != 0) {
      fail_os(Status::open, error, "{} is a link to nothing", shown);
    }
  }
  return {};
}

bool is_pipe_or_device(const std::wstring& path) { return path.starts_with(L"\\\\.\\"); }

void require_replaceable(HANDLE file, const Target& target) {
  FILE_BASIC_INFO info{};
  if (GetFileInformationByHandleEx(file, FileBasicInfo, &info, sizeof info) == FALSE) {
    fail_os(Status::open, last_error(), "{}", target.shown);
  }
  if ((info.FileAttributes & FILE_ATTRIBUTE_DIRECTORY) != 0) fail(Status::open, "{} is a folder", target.shown);
  if ((info.FileAttributes & FILE_ATTRIBUTE_READONLY) != 0) {
    fail_os(Status::open, ERROR_ACCESS_DENIED, "{} is read-only", target.shown);
  }
}

}  // namespace

Target find_target(const char* path) {
  Target target;
  target.shown = in_quotes(path);
  const std::string_view given = path;
  if (given == "/dev/stdout" || given == "/dev/stderr") {
    target.stream = copy_of_standard(given == "/dev/stdout" ? STD_OUTPUT_HANDLE : STD_ERROR_HANDLE, target.shown);
    target.kind = Target::Kind::stream;
    return target;
  }
  std::wstring native = native_path(path);
  if (is_pipe_or_device(native)) {
    target.stream =
        Handle(CreateFileW(native.c_str(), GENERIC_WRITE, kShareAll, nullptr, OPEN_EXISTING, kNotActedFor, nullptr));
    if (!target.stream) fail_os(Status::open, last_error(), "{}", target.shown);
    if (GetFileType(target.stream.get()) == FILE_TYPE_DISK)
      fail(Status::open, "{} is a disk, not a file", target.shown);
    target.kind = Target::Kind::stream;
    return target;
  }
  if (const Handle file = look_through_links(native, target.shown)) {
    require_replaceable(file.get(), target);
    if (std::wstring real = final_path(file.get()); !real.empty()) native = std::move(real);
    target.kind = Target::Kind::regular;
  }
  target.place = split(native);
  if (target.place.name.empty()) fail_os(Status::open, ERROR_INVALID_NAME, "{}", target.shown);
  if (target.place.name.find(L':') != std::wstring::npos) {
    fail(Status::open, "{} is a stream of a file, which cannot be replaced", target.shown);
  }
  return target;
}

}  // namespace st::io
