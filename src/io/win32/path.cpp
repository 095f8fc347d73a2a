// SPDX-License-Identifier: Apache-2.0
#include "io/win32/path.hpp"

#include <windows.h>

#include <vector>

#include "base/error.hpp"
#include "io/win32/text.hpp"

namespace st::io {

namespace {

// A folder's path must leave room for a name of 8.3 characters in 260. Shorter paths stay as they are: the long form
// takes each name literally, also those of devices ("NUL") and those that end with a dot.
constexpr std::size_t kMostOfShortForm = 247;

bool is_device_or_long(std::wstring_view path) { return path.starts_with(L"\\\\?\\") || path.starts_with(L"\\\\.\\"); }

std::wstring in_long_form(std::wstring path) {
  if (path.size() <= kMostOfShortForm || is_device_or_long(path)) return path;
  return path.starts_with(L"\\\\") ? L"\\\\?\\UNC" + path.substr(1) : L"\\\\?\\" + path;
}

}  // namespace

std::wstring native_path(std::string_view path) {
  const std::optional<std::wstring> wide = to_wide(path);
  if (!wide) fail(Status::utf8, "the path {} is not UTF-8", in_quotes(path));
  if (is_device_or_long(*wide)) return *wide;
  const DWORD wanted = GetFullPathNameW(wide->c_str(), 0, nullptr, nullptr);
  std::wstring full(wanted, L'\0');
  const DWORD size = wanted == 0 ? 0 : GetFullPathNameW(wide->c_str(), wanted, full.data(), nullptr);
  if (size == 0 || size >= wanted) return *wide;  // the empty path, for one: opening it says what is wrong
  full.resize(size);
  return in_long_form(std::move(full));
}

std::wstring below(const std::wstring& folder, std::wstring_view name) {
  std::wstring path = folder;
  if (path.empty() || path.back() != L'\\') path += L'\\';
  path += name;
  for (wchar_t& c : path) {
    if (c == L'/') c = L'\\';
  }
  return in_long_form(std::move(path));
}

bool is_folder(const std::wstring& path) {
  const DWORD attributes = GetFileAttributesW(path.c_str());
  return attributes != INVALID_FILE_ATTRIBUTES && (attributes & FILE_ATTRIBUTE_DIRECTORY) != 0;
}

bool is_folder(void* file) {
  FILE_STANDARD_INFO info{};
  return GetFileInformationByHandleEx(file, FileStandardInfo, &info, sizeof info) != FALSE && info.Directory != FALSE;
}

std::wstring final_path(void* file) {
  std::wstring path(512, L'\0');
  for (int attempt = 0; attempt < 3; ++attempt) {
    const DWORD size = GetFinalPathNameByHandleW(file, path.data(), static_cast<DWORD>(path.size()), 0);
    if (size == 0) return {};
    const bool whole = size < path.size();
    path.resize(size);
    if (whole) return path;
  }
  return {};
}

std::wstring path_on_volume(void* file) {
  std::vector<std::byte> memory(std::size_t{1} << 16);  // a path has 32767 characters at most
  auto* const name = reinterpret_cast<FILE_NAME_INFO*>(memory.data());
  const auto size = static_cast<DWORD>(memory.size());
  if (GetFileInformationByHandleEx(file, FileNameInfo, name, size) == FALSE) return {};
  return {name->FileName, name->FileNameLength / sizeof(wchar_t)};
}

}  // namespace st::io
