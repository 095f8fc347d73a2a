// SPDX-License-Identifier: Apache-2.0
#define _CRT_RAND_S  // declares rand_s(), which uses the system's random generator
#include <stdlib.h>

#include "io/win32/os.hpp"

#include <array>
#include <chrono>
#include <climits>
#include <cstring>
#include <vector>

#include "base/error.hpp"
#include "base/text.hpp"
#include "io/os.hpp"

// Strips the period and line break from the system's text, because it becomes part of a message.
std::string st::os_error_text(int os_error) {
  constexpr DWORD kFlags = FORMAT_MESSAGE_FROM_SYSTEM | FORMAT_MESSAGE_IGNORE_INSERTS | FORMAT_MESSAGE_MAX_WIDTH_MASK;
  std::array<wchar_t, 512> words{};
  const DWORD size = FormatMessageW(kFlags, nullptr, static_cast<DWORD>(os_error), 0, words.data(),
                                    static_cast<DWORD>(words.size()), nullptr);
  std::string text = io::to_utf8({words.data(), size}).value_or("");
  text.erase(text.find_last_not_of(" .\r\n") + 1);
  return text.empty() ? formatted("error {} of the system", os_error) : text;
}

namespace st::io {

int no_such_file() { return ERROR_FILE_NOT_FOUND; }
bool is_no_such_file(int os_error) { return os_error == ERROR_FILE_NOT_FOUND || os_error == ERROR_PATH_NOT_FOUND; }

int out_of_memory() { return ERROR_NOT_ENOUGH_MEMORY; }

// ---- handles ------------------------------------------------------------------------------------------------------

Handle open_existing(const std::wstring& path, DWORD access, DWORD flags) {
  constexpr DWORD kNoImpersonation = SECURITY_SQOS_PRESENT | SECURITY_IDENTIFICATION;
  return Handle(
      CreateFileW(path.c_str(), access, kShareAll, nullptr, OPEN_EXISTING, flags | kNoImpersonation, nullptr));
}

Handle duplicate_handle(HANDLE handle) {
  const HANDLE process = GetCurrentProcess();
  HANDLE copy = nullptr;
  DuplicateHandle(process, handle, process, &copy, 0, FALSE, DUPLICATE_SAME_ACCESS);
  return Handle(copy);
}

// ---- text ---------------------------------------------------------------------------------------------------------

std::optional<std::wstring> to_wide(std::string_view text) {
  if (text.empty()) return std::wstring();
  if (text.size() > INT_MAX) return std::nullopt;
  const int size = static_cast<int>(text.size());
  const int wanted = MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, text.data(), size, nullptr, 0);
  if (wanted <= 0) return std::nullopt;
  std::wstring wide(static_cast<std::size_t>(wanted), L'\0');
  MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, text.data(), size, wide.data(), wanted);
  return wide;
}

std::optional<std::string> to_utf8(std::wstring_view text) {
  if (text.empty()) return std::string();
  if (text.size() > INT_MAX) return std::nullopt;
  const int size = static_cast<int>(text.size());
  const int wanted =
      WideCharToMultiByte(CP_UTF8, WC_ERR_INVALID_CHARS, text.data(), size, nullptr, 0, nullptr, nullptr);
  if (wanted <= 0) return std::nullopt;
  std::string bytes(static_cast<std::size_t>(wanted), '\0');
  WideCharToMultiByte(CP_UTF8, WC_ERR_INVALID_CHARS, text.data(), size, bytes.data(), wanted, nullptr, nullptr);
  return bytes;
}

// ---- paths --------------------------------------------------------------------------------------------------------

namespace {

// A directory's path must leave room for an 8.3 name within 260 characters. Shorter paths keep their form, because the
// long form takes every name literally, even device names ("NUL") and names that end with a dot.
constexpr std::size_t kMostOfShortForm = 247;

bool is_device_or_long(std::wstring_view path) {
  return starts_with(path, L"\\\\?\\") || starts_with(path, L"\\\\.\\");
}

std::wstring in_long_form(std::wstring path) {
  if (path.size() <= kMostOfShortForm || is_device_or_long(path)) return path;
  return starts_with(path, L"\\\\") ? L"\\\\?\\UNC" + path.substr(1) : L"\\\\?\\" + path;
}

}  // namespace

std::wstring native_path(std::string_view path) {
  const std::optional<std::wstring> wide = to_wide(path);
  if (!wide) fail(Status::utf8, "the path {} is not UTF-8", in_quotes(path));
  if (is_device_or_long(*wide)) return *wide;
  const DWORD wanted = GetFullPathNameW(wide->c_str(), 0, nullptr, nullptr);
  std::wstring full(wanted, L'\0');
  const DWORD size = wanted == 0 ? 0 : GetFullPathNameW(wide->c_str(), wanted, full.data(), nullptr);
  if (size == 0 || size >= wanted) return *wide;  // for example an empty path; opening it will report the error
  full.resize(size);
  return in_long_form(std::move(full));
}

std::wstring below(const std::wstring& directory, std::wstring_view name) {
  std::wstring path = directory;
  if (path.empty() || path.back() != L'\\') path += L'\\';
  path += name;
  for (wchar_t& c : path) {
    if (c == L'/') c = L'\\';
  }
  return in_long_form(std::move(path));
}

bool is_directory(const std::wstring& path) {
  const DWORD attributes = GetFileAttributesW(path.c_str());
  return attributes != INVALID_FILE_ATTRIBUTES && (attributes & FILE_ATTRIBUTE_DIRECTORY) != 0;
}

bool is_directory(HANDLE file) {
  FILE_STANDARD_INFO info{};
  return GetFileInformationByHandleEx(file, FileStandardInfo, &info, sizeof info) != FALSE && info.Directory != FALSE;
}

std::wstring final_path(HANDLE file) {
  std::wstring path(std::size_t{1} << 15, L'\0');  // paths have at most 32767 characters
  const DWORD size = GetFinalPathNameByHandleW(file, path.data(), static_cast<DWORD>(path.size()), 0);
  path.resize(size < path.size() ? size : 0);
  return path;
}

std::wstring path_on_volume(HANDLE file) {
  std::vector<std::byte> memory(std::size_t{1} << 16);
  auto* const name = reinterpret_cast<FILE_NAME_INFO*>(memory.data());
  const auto size = static_cast<DWORD>(memory.size());
  if (GetFileInformationByHandleEx(file, FileNameInfo, name, size) == FALSE) return {};
  return {name->FileName, name->FileNameLength / sizeof(wchar_t)};
}

// ---- random numbers -----------------------------------------------------------------------------------------------

std::uint64_t random_seed() {
  unsigned low = 0;
  unsigned high = 0;
  if (rand_s(&low) == 0 && rand_s(&high) == 0) return static_cast<std::uint64_t>(high) << 32 | low;
  // If the generator fails, fall back to the stack address and the clock.
  const auto now = static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  return reinterpret_cast<std::uintptr_t>(&low) * 0x9E3779B97F4A7C15 ^ now;
}

std::uint64_t hash_seed(const void* table) {
  return (random_seed() ^ reinterpret_cast<std::uintptr_t>(table)) * 0x9E3779B97F4A7C15;
}

// ---- shared libraries ---------------------------------------------------------------------------------------------

SharedLibrary SharedLibrary::loaded(const char* name) {
  const std::optional<std::wstring> wide = to_wide(name);
  HMODULE found = nullptr;
  if (wide) GetModuleHandleExW(GET_MODULE_HANDLE_EX_FLAG_PIN, wide->c_str(), &found);
  return SharedLibrary(found);
}

// Searches for a bare name only in the system directory, never in the working directory.
SharedLibrary SharedLibrary::load(const char* name, std::string* /*why*/) {
  if (std::strpbrk(name, "\\/:") != nullptr) {
    return SharedLibrary(LoadLibraryExW(native_path(name).c_str(), nullptr, LOAD_WITH_ALTERED_SEARCH_PATH));
  }
  const std::optional<std::wstring> wide = to_wide(name);
  return SharedLibrary(wide ? LoadLibraryExW(wide->c_str(), nullptr, LOAD_LIBRARY_SEARCH_SYSTEM32) : nullptr);
}

void* SharedLibrary::find(const char* function) const {
  return reinterpret_cast<void*>(GetProcAddress(static_cast<HMODULE>(handle_), function));
}

}  // namespace st::io
