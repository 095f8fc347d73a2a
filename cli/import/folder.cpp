// Finds the checkpoint in a folder.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "failure.hpp"
#include "import.hpp"
#include "new_model.hpp"
#include "text.hpp"

namespace cli::importer {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kUsualIndex = "pytorch_model.bin.index.json";
// Preferred names, because optimizer states and training arguments often have the same extension.
constexpr std::array<std::string_view, 3> kUsualNames{"pytorch_model.bin", "diffusion_pytorch_model.bin",
                                                      "adapter_model.bin"};

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    std::string name = at->path().filename().string();
    if (!name.starts_with('.')) names.push_back(std::move(name));
  }
  if (error) throw Failure{kUnreadable, formatted("{}: {}", folder, error.message())};
  std::sort(names.begin(), names.end());
  return names;
}

// Returns whether the library considers a file of this name when it opens a folder.
bool is_of_library(const std::string& name) {
  return format_of_extension(name) || name.ends_with(".safetensors.index.json");
}

bool has_extension_of_checkpoint(const std::string& name) {
  constexpr std::array<std::string_view, 7> kExtensions{".pt", ".pth", ".bin", ".ckpt", ".npz", ".npy", ".gguf"};
  const std::string lower = lower_case(name);
  return std::any_of(kExtensions.begin(), kExtensions.end(), [&](auto each) { return lower.ends_with(each); });
}

bool holds(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::string choose(const std::string& folder, const std::vector<std::string>& names) {
  if (names.size() == 1) return (fs::path(folder) / names.front()).string();
  throw Failure{kUsage, formatted("{}: several checkpoints, such as '{}' and '{}': give the path of one", folder,
                                  names[0], names[1])};
}

}  // namespace

std::string checkpoint_in(const std::string& path) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return path;
  const std::vector<std::string> names = names_in(path);
  if (std::any_of(names.begin(), names.end(), is_of_library)) return path;
  const auto whole = [&](std::string_view name) { return (fs::path(path) / name).string(); };

  if (holds(names, kUsualIndex)) return whole(kUsualIndex);
  for (const std::string_view usual : kUsualNames) {
    if (holds(names, usual)) return whole(usual);
  }
  std::vector<std::string> indexes, files;
  for (const std::string& name : names) {
    if (name.ends_with(kIndexEnding) && is_importable_index(whole(name))) indexes.push_back(name);
    if (has_extension_of_checkpoint(name) && is_importable(whole(name))) files.push_back(name);
  }
  if (!indexes.empty()) return choose(path, indexes);
  return files.empty() ? path : choose(path, files);
}

}  // namespace cli::importer
