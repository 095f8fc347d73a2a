// SPDX-License-Identifier: Apache-2.0
#include "windows_text.hpp"

#include <array>
#include <string_view>

namespace cli {
namespace {

// A folder's path must leave room for a name of 8.3 characters in 260. Shorter paths stay as they are: the long form
// takes each name literally, also those of devices ("NUL") and those that end with a dot.
constexpr std::size_t kMostOfShortForm = 247;

std::wstring wide(const std::string& text) {
  const int size = static_cast<int>(text.size());
  const int wanted = MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, text.data(), size, nullptr, 0);
  if (wanted <= 0) return text.empty() ? L"" : L"|";
  std::wstring converted(static_cast<std::size_t>(wanted), L'\0');
  MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, text.data(), size, converted.data(), wanted);
  return converted;
}

}  // namespace

std::wstring native_path(const std::string& path) {
  const std::wstring given = wide(path);
  std::wstring full(32768, L'\0');  // the longest path
  const DWORD size = GetFullPathNameW(given.c_str(), static_cast<DWORD>(full.size()), full.data(), nullptr);
  if (size == 0 || size >= full.size()) return given;
  full.resize(size);
  const bool is_long_or_device = full.starts_with(L"\\\\?\\") || full.starts_with(L"\\\\.\\");
  if (size <= kMostOfShortForm || is_long_or_device) return full;
  return full.starts_with(L"\\\\") ? L"\\\\?\\UNC" + full.substr(1) : L"\\\\?\\" + full;
}

std::optional<std::string> utf8(const std::wstring& text) {
  if (text.empty()) return std::string();
  const int size = static_cast<int>(text.size());
  const int wanted =
      WideCharToMultiByte(CP_UTF8, WC_ERR_INVALID_CHARS, text.data(), size, nullptr, 0, nullptr, nullptr);
  if (wanted <= 0) return std::nullopt;
  std::string converted(static_cast<std::size_t>(wanted), '\0');
  WideCharToMultiByte(CP_UTF8, WC_ERR_INVALID_CHARS, text.data(), size, converted.data(), wanted, nullptr, nullptr);
  return converted;
}

std::string system_words(DWORD error) {
  std::array<wchar_t, 512> words{};
  constexpr DWORD kFlags = FORMAT_MESSAGE_FROM_SYSTEM | FORMAT_MESSAGE_IGNORE_INSERTS | FORMAT_MESSAGE_MAX_WIDTH_MASK;
  FormatMessageW(kFlags, nullptr, error, 0, words.data(), static_cast<DWORD>(words.size()), nullptr);
  std::string text = utf8(words.data()).value_or("");
  text.erase(text.find_last_not_of(" .\r\n") + 1);
  return text.empty() ? "error " + std::to_string(error) : text;
}

}  // namespace cli
