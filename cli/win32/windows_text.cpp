// SPDX-License-Identifier: Apache-2.0
#include "windows_text.hpp"

#include <array>

namespace cli {

std::wstring wide(const std::string& text) {
  const int size = static_cast<int>(text.size());
  const int wanted = MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, text.data(), size, nullptr, 0);
  if (wanted <= 0) return text.empty() ? L"" : L"|";
  std::wstring converted(static_cast<std::size_t>(wanted), L'\0');
  MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, text.data(), size, converted.data(), wanted);
  return converted;
}

std::string utf8(const std::wstring& text) {
  const int size = static_cast<int>(text.size());
  const int wanted = WideCharToMultiByte(CP_UTF8, 0, text.data(), size, nullptr, 0, nullptr, nullptr);
  std::string converted(static_cast<std::size_t>(wanted), '\0');
  WideCharToMultiByte(CP_UTF8, 0, text.data(), size, converted.data(), wanted, nullptr, nullptr);
  return converted;
}

std::string system_words(DWORD error) {
  std::array<wchar_t, 512> words{};
  constexpr DWORD kFlags = FORMAT_MESSAGE_FROM_SYSTEM | FORMAT_MESSAGE_IGNORE_INSERTS | FORMAT_MESSAGE_MAX_WIDTH_MASK;
  FormatMessageW(kFlags, nullptr, error, 0, words.data(), static_cast<DWORD>(words.size()), nullptr);
  std::string text = utf8(words.data());
  text.erase(text.find_last_not_of(" .\r\n") + 1);
  return text.empty() ? "error " + std::to_string(error) : text;
}

}  // namespace cli
