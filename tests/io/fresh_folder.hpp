// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <random>
#include <stdexcept>
#include <string>

namespace st::io {

// Creates an empty folder that no other test uses, on every system. The caller removes it.
inline std::filesystem::path fresh_folder(const std::string& name) {
  std::random_device random;
  const auto path = std::filesystem::temp_directory_path() / (name + "-" + std::to_string(random()));
  if (!std::filesystem::create_directory(path)) throw std::runtime_error(path.string() + " is there already");
  return path;
}

}  // namespace st::io
