// Paths of the standard library from and to this program's texts, which are UTF-8 on every system; elsewhere than on
// Windows any bytes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

namespace cli {

inline std::filesystem::path path_of(const std::string& text) { return std::u8string(text.begin(), text.end()); }

inline std::string text_of(const std::filesystem::path& path) {
  const std::u8string text = path.u8string();
  return {text.begin(), text.end()};
}

}  // namespace cli
