// SPDX-License-Identifier: Apache-2.0
#include "io/win32/temp_file.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/formatted.hpp"
#include "io/os.hpp"
#include "io/win32/path.hpp"
#include "io/win32/text.hpp"

namespace st::io {

namespace {

constexpr int kMostTries = 100;           // a random name is taken once in 2^64 times
constexpr int kMostEntries = 4096;        // of the folder are looked at
constexpr std::size_t kMostOfName = 200;  // of the 255 characters that a name may have
constexpr std::wstring_view kMark = L".st-new-";
constexpr std::size_t kDigits = 16;

// Of newer systems, and not in each compiler's headers.
constexpr auto kRenameInfoEx = static_cast<FILE_INFO_BY_HANDLE_CLASS>(22);
constexpr DWORD kReplaceIfExists = 1;
constexpr DWORD kPosixSemantics = 2;

bool is_first_of_pair(wchar_t c) { return (c & 0xFC00) == 0xD800; }

// Targets whose long names begin alike share this. That is harmless: only what nobody has open is removed.
std::wstring beginning(const Place& target) {
  std::size_t kept = std::min(target.name.size(), kMostOfName);
  if (kept < target.name.size() && kept > 0 && is_first_of_pair(target.name[kept - 1])) --kept;
  return L"." + target.name.substr(0, kept) + std::wstring(kMark);
}

// The case of a name's letters is that of its first writer.
bool is_same_name(std::wstring_view a, std::wstring_view b) {
  return CompareStringOrdinal(a.data(), static_cast<int>(a.size()), b.data(), static_cast<int>(b.size()), TRUE) ==
         CSTR_EQUAL;
}

bool is_temp_name(std::wstring_view name, std::wstring_view beginning_of_target) {
  if (!is_same_name(name.substr(0, beginning_of_target.size()), beginning_of_target)) return false;
  const std::wstring_view digits = name.substr(beginning_of_target.size());
  return digits.size() == kDigits && digits.find_first_not_of(L"0123456789abcdef") == digits.npos;
}

// `share` 0: only a file that nobody has open. Any other goes with its last handle.
void remove(const std::wstring& path, DWORD share) {
  constexpr DWORD kFlags = FILE_FLAG_DELETE_ON_CLOSE | FILE_FLAG_OPEN_REPARSE_POINT;
  const Handle file(CreateFileW(path.c_str(), DELETE, share, nullptr, OPEN_EXISTING, kFlags, nullptr));
}

int set_name(HANDLE file, const std::wstring& path, bool posix, bool replace) {
  const std::size_t bytes = path.size() * sizeof(wchar_t);
  std::vector<std::byte> memory(sizeof(FILE_RENAME_INFO) + bytes + sizeof(wchar_t));
  auto* const info = reinterpret_cast<FILE_RENAME_INFO*>(memory.data());
  const DWORD flags = (replace ? kReplaceIfExists : 0U) | (posix ? kPosixSemantics : 0U);
  std::memcpy(memory.data(), &flags, sizeof flags);  // the older structure has a byte there: whether to replace
  info->FileNameLength = static_cast<DWORD>(bytes);
  std::memcpy(info->FileName, path.data(), bytes);
  const auto kind = posix ? kRenameInfoEx : FileRenameInfo;
  const BOOL done = SetFileInformationByHandle(file, kind, info, static_cast<DWORD>(memory.size()));
  return done != FALSE ? 0 : last_error();
}

}  // namespace

std::wstring Place::path() const { return below(folder, name); }

void sweep_temp_files(const Place& target) {
  const std::wstring wanted = beginning(target);
  WIN32_FIND_DATAW entry{};
  const HANDLE search = FindFirstFileW(below(target.folder, wanted + L"*").c_str(), &entry);
  if (search == INVALID_HANDLE_VALUE) return;
  for (int i = 0; i < kMostEntries; ++i) {
    if (is_temp_name(entry.cFileName, wanted)) remove(below(target.folder, entry.cFileName), 0);
    if (FindNextFileW(search, &entry) == FALSE) break;
  }
  FindClose(search);
}

std::wstring temp_path(const Place& target) {
  const std::wstring digits = to_wide(formatted("{:016x}", random_seed())).value_or(L"");
  return below(target.folder, beginning(target) + digits);
}

Handle create_temp_file(const Place& target) {
  // READ_CONTROL and WRITE_DAC to hand on who may do what with the file that is replaced.
  constexpr DWORD kAccess = GENERIC_READ | GENERIC_WRITE | DELETE | READ_CONTROL | WRITE_DAC;
  for (int i = 0; i < kMostTries; ++i) {
    const std::wstring path = temp_path(target);
    Handle file(CreateFileW(path.c_str(), kAccess, kShareAll, nullptr, CREATE_NEW, FILE_FLAG_OVERLAPPED, nullptr));
    if (!file && GetLastError() == ERROR_FILE_EXISTS) continue;
    const int error = file ? set_deleted(file.get(), true) : 0;
    if (error == 0) return file;
    file.close();
    DeleteFileW(path.c_str());
    SetLastError(static_cast<DWORD>(error));
    return {};
  }
  return {};
}

int set_deleted(HANDLE file, bool deleted) {
  FILE_DISPOSITION_INFO info{};
  info.DeleteFile = deleted ? TRUE : FALSE;
  return SetFileInformationByHandle(file, FileDispositionInfo, &info, sizeof info) != FALSE ? 0 : last_error();
}

int rename_temp_file(HANDLE file, const std::wstring& path, bool replace) {
  const int error = set_name(file, path, /*posix=*/true, replace);
  const bool unknown = error == ERROR_INVALID_PARAMETER || error == ERROR_NOT_SUPPORTED ||
                       error == ERROR_INVALID_FUNCTION || error == ERROR_CALL_NOT_IMPLEMENTED ||
                       error == ERROR_INVALID_LEVEL;
  return unknown ? set_name(file, path, /*posix=*/false, replace) : error;
}

int rename_over_open_file(HANDLE file, const Place& target) {
  const std::wstring path = target.path();
  const Handle old(CreateFileW(path.c_str(), DELETE | SYNCHRONIZE, kShareAll, nullptr, OPEN_EXISTING,
                               FILE_FLAG_OPEN_REPARSE_POINT | kNotActedFor, nullptr));
  if (!old) return last_error();
  const std::wstring aside = temp_path(target);
  if (const int error = rename_temp_file(old.get(), aside, false); error != 0) return error;
  // Another writer may have put a file there meanwhile.
  const int error = rename_temp_file(file, path, true);
  const int error_of_return = error == 0 ? 0 : rename_temp_file(old.get(), path, false);
  const bool replaced = error == 0 || error_of_return == ERROR_ALREADY_EXISTS || error_of_return == ERROR_FILE_EXISTS;
  if (replaced) remove(aside, kShareAll);  // not by this handle: a file that is mapped cannot be marked for deletion
  return error;
}

}  // namespace st::io
