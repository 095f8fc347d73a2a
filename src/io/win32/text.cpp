// SPDX-License-Identifier: Apache-2.0
#include "io/win32/text.hpp"

#include <windows.h>

#include <climits>

namespace st::io {

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

}  // namespace st::io
