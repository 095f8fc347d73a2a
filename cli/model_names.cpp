// SPDX-License-Identifier: Apache-2.0
#include "model_names.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <vector>

#include "path_text.hpp"
#include "system.hpp"

namespace cli {
namespace {

constexpr std::string_view kIndexEnding = ".safetensors.index.json";

std::string without(std::string text, std::string_view ending) {
  if (text.ends_with(ending)) text.resize(text.size() - ending.size());
  return text;
}

std::string without_extension(const std::string& name) {
  return format_of_extension(name) ? name.substr(0, name.rfind('.')) : name;
}

// NAME of NAME-00001-of-00003
std::string without_number(const std::string& name) {
  const std::size_t of = name.rfind("-of-");
  const std::size_t dash = of == std::string::npos || of == 0 ? std::string::npos : name.rfind('-', of - 1);
  return dash == std::string::npos ? name : name.substr(0, dash);
}

// As the library chooses the index of a folder: docs/format.md 2.4.
std::string index_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator at(path_of(folder), error), end; !error && at != end; at.increment(error)) {
    const std::string name = text_of(at->path().filename());
    if (name.ends_with(kIndexEnding)) names.push_back(name);
  }
  std::string usual = "model" + std::string(kIndexEnding);
  if (std::find(names.begin(), names.end(), usual) != names.end()) return usual;
  const bool is_passed_over = std::filesystem::exists(path_of(folder) / "model.safetensors", error);
  return names.empty() || is_passed_over ? "" : names.front();
}

std::string extension_of(const std::string& path) {
  std::string extension = text_of(path_of(path).extension());
  std::transform(extension.begin(), extension.end(), extension.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  return extension;
}

struct NamedFormat {
  std::string_view extension;
  st_format format;
};
constexpr std::array<NamedFormat, 3> kFormats{
    {{".safetensors", ST_FORMAT_SAFETENSORS}, {".bintensors", ST_FORMAT_BINTENSORS}, {".bt", ST_FORMAT_BINTENSORS}}};

}  // namespace

std::optional<st_format> format_of_extension(const std::string& path) {
  const std::string extension = extension_of(path);
  for (const NamedFormat& known : kFormats) {
    if (known.extension == extension) return known.format;
  }
  return std::nullopt;
}

bool is_one_file(const std::string& out) { return out == "-" || format_of_extension(out).has_value(); }

bool is_other_file(const std::string& out) {
  constexpr std::array<std::string_view, 9> kOthers{".pt",  ".pth",  ".bin",  ".ckpt", ".npz",
                                                    ".npy", ".gguf", ".json", ".onnx"};
  return std::find(kOthers.begin(), kOthers.end(), extension_of(out)) != kOthers.end() && !is_folder(out);
}

std::string name_of_shard(const safetensors::SafeOpen& file, const std::string& path, std::size_t shard) {
  const std::string whole(file.shard_path(shard));
  const std::string folder = is_folder(path) ? path : path.substr(0, path.size() - file_name(path).size());
  if (folder.empty() || !whole.starts_with(folder)) return folder.empty() ? whole : file_name(whole);
  const std::size_t name = whole.find_first_not_of("/\\", folder.size());
  return name == std::string::npos ? file_name(whole) : whole.substr(name);
}

std::string stem_of_model(const std::string& path, const safetensors::SafeOpen& file) {
  const std::string index = is_folder(path) ? index_in(path) : file_name(path);
  if (index.ends_with(kIndexEnding)) return without(index, kIndexEnding);
  const std::string shard = without_extension(file_name(std::string(file.shard_path(0))));
  return file.count_shards() > 1 ? without_number(shard) : shard;
}

std::string name_of_index(const std::string& path, const safetensors::SafeOpen& file) {
  if (path.ends_with(".index.json")) return file_name(path);
  return stem_of_model(path, file) + std::string(kIndexEnding);
}

}  // namespace cli
