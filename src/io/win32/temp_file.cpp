// SPDX-License-Identifier: Apache-2.0
#include "io/win32/temp_file.hpp"

#include <cstring>
#include <vector>

#include <fmt/core.h>

#include "io/random.hpp"
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

std::wstring beginning(const Place& target) { return L"." + target.name.substr(0, kMostOfName) + std::wstring(kMark); }

bool is_sibling_name(std::wstring_view name, std::wstring_view beginning_of_target) {
  if (!name.starts_with(beginning_of_target)) return false;
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

void sweep_siblings(const Place& target) {
  const std::wstring wanted = beginning(target);
  WIN32_FIND_DATAW entry{};
  const HANDLE search = FindFirstFileW(below(target.folder, wanted + L"*").c_str(), &entry);
  if (search == INVALID_HANDLE_VALUE) return;
  for (int i = 0; i < kMostEntries; ++i) {
    if (is_sibling_name(entry.cFileName, wanted)) remove(below(target.folder, entry.cFileName), 0);
    if (FindNextFileW(search, &entry) == FALSE) break;
  }
  FindClose(search);
}

std::wstring sibling_path(const Place& target) {
  const std::wstring digits = to_wide(fmt::format("{:016x}", random_seed())).value_or(L"");
  return below(target.folder, beginning(target) + digits);
}

Handle create_sibling(const Place& target) {
  // READ_CONTROL and WRITE_DAC to hand on who may do what with the file that is replaced.
  constexpr DWORD kAccess = GENERIC_READ | GENERIC_WRITE | DELETE | READ_CONTROL | WRITE_DAC;
  for (int i = 0; i < kMostTries; ++i) {
    Handle file(CreateFileW(sibling_path(target).c_str(), kAccess, kShareAll, nullptr, CREATE_NEW, FILE_FLAG_OVERLAPPED,
                            nullptr));
    if (file) set_deleted(file.get(), true);
    if (file || GetLastError() != ERROR_FILE_EXISTS) return file;
  }
  return {};
}

void set_deleted(HANDLE file, bool deleted) {
  FILE_DISPOSITION_INFO info{};
  info.DeleteFile = deleted ? TRUE : FALSE;
  SetFileInformationByHandle(file, FileDispositionInfo, &info, sizeof info);
}

int rename_open(HANDLE file, const std::wstring& path, bool replace) {
  const int error = set_name(file, path, /*posix=*/true, replace);
  const bool unknown = error == ERROR_INVALID_PARAMETER || error == ERROR_NOT_SUPPORTED ||
                       error == ERROR_INVALID_FUNCTION || error == ERROR_CALL_NOT_IMPLEMENTED ||
                       error == ERROR_INVALID_LEVEL;
  return unknown ? set_name(file, path, /*posix=*/false, replace) : error;
}

int rename_over_open(HANDLE file, const Place& target) {
  const std::wstring path = target.path();
  const Handle old(CreateFileW(path.c_str(), DELETE | SYNCHRONIZE, kShareAll, nullptr, OPEN_EXISTING,
                               FILE_FLAG_OPEN_REPARSE_POINT | kNotActedFor, nullptr));
  if (!old) return last_error();
  const std::wstring aside = sibling_path(target);
  if (const int error = rename_open(old.get(), aside, false); error != 0) return error;
  const int error = rename_open(file, path, false);
  if (error == 0) {
    remove(aside, kShareAll);  // not by this handle: a file that is mapped cannot be marked for deletion
  } else {
    rename_open(old.get(), path, false);
  }
  return error;
}

}  // namespace st::io
