// SPDX-License-Identifier: Apache-2.0
#include "new_model.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <string_view>
#include <system_error>

#include "remote.hpp"
#include "system.hpp"
#include "text.hpp"

namespace cli {
namespace {

using safetensors::Metadata;
using safetensors::SafeOpen;

// ---- names

constexpr std::string_view kIndexEnding = ".safetensors.index.json";

std::string without(std::string text, std::string_view ending) {
  if (text.ends_with(ending)) text.resize(text.size() - ending.size());
  return text;
}

std::string without_extension(const std::string& name) {
  return format_of_extension(name) ? name.substr(0, name.rfind('.')) : name;
}

// Returns NAME for NAME-00001-of-00003.
std::string without_number(const std::string& name) {
  const std::size_t of = name.rfind("-of-");
  const std::size_t dash = of == std::string::npos || of == 0 ? std::string::npos : name.rfind('-', of - 1);
  return dash == std::string::npos ? name : name.substr(0, dash);
}

// Returns the index that the library chooses in a folder (docs/format.md 2.4), or "".
std::string index_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator at(path_of(folder), error), end; !error && at != end; at.increment(error)) {
    const std::string name = text_of(at->path().filename());
    const bool is_of_macos = name.starts_with("._");
    if (name.ends_with(kIndexEnding) && !is_of_macos) names.push_back(name);
  }
  std::string usual = "model" + std::string(kIndexEnding);
  if (std::find(names.begin(), names.end(), usual) != names.end()) return usual;
  const bool is_passed_over = std::filesystem::exists(path_of(folder) / "model.safetensors", error);
  return names.empty() || is_passed_over ? "" : names.front();
}

std::string extension_of(const std::string& path) { return lower_case(text_of(path_of(path).extension())); }

struct NamedFormat {
  std::string_view extension;
  st_format format;
};
constexpr std::array<NamedFormat, 3> kFormats{
    {{".safetensors", ST_FORMAT_SAFETENSORS}, {".bt", ST_FORMAT_BINTENSORS}, {".bintensors", ST_FORMAT_BINTENSORS}}};

// ---- metadata

// Returns whether an index uses this key for its own purposes. The user's values for such keys are stored in the
// shards.
bool is_hint(const std::pair<const std::string, std::string>& pair) {
  return pair.first == "total_size" || pair.first == "total_parameters";
}

// Gives a shard the metadata that programs need to open a single shard.
void give_shard_metadata(NewFile& shard, const NewFile& whole) {
  const Metadata& all = whole.metadata;
  const auto format = all.find("format");
  if (format != all.end()) shard.metadata.insert(*format);
  // The index uses these keys for its own numbers.
  std::copy_if(all.begin(), all.end(), std::inserter(shard.metadata, shard.metadata.end()), is_hint);
  shard.has_metadata = !shard.metadata.empty() || (whole.has_metadata && all.empty());
}

}  // namespace

// ---- names ----------------------------------------------------------------------------------------------------------

std::string known_extensions() {
  std::string all;
  for (const NamedFormat& known : kFormats) {
    const bool is_last = &known == &kFormats.back();
    if (!all.empty()) all += is_last ? " or " : ", ";
    all += known.extension;
  }
  return all;
}

std::optional<st_format> format_of_extension(const std::string& path) {
  const std::string extension = extension_of(path);
  for (const NamedFormat& known : kFormats) {
    if (known.extension == extension) return known.format;
  }
  return std::nullopt;
}

bool is_one_file(const std::string& out) { return out == "-" || is_stream(out) || format_of_extension(out); }

bool is_other_file(const std::string& out) {
  constexpr std::array<std::string_view, 9> kOthers{".pt",  ".pth",  ".bin",  ".ckpt", ".npz",
                                                    ".npy", ".gguf", ".json", ".onnx"};
  return std::find(kOthers.begin(), kOthers.end(), extension_of(out)) != kOthers.end() && !is_folder(out);
}

std::string name_of_shard(const safetensors::SafeOpen& file, const std::string& path, std::size_t shard) {
  namespace fs = std::filesystem;
  if (is_url(path)) {
    const std::string index = https_url(path);
    const std::string folder = index.substr(0, index.rfind('/') + 1);
    const std::string url(file.shard_path(shard));
    if (!url.starts_with(folder)) return last_part(url);
    std::string name;
    for (std::size_t at = folder.size(); at <= url.size();) {
      const std::size_t end = std::min(url.find('/', at), url.size());
      name += (name.empty() ? "" : "/") + decoded_name(std::string_view(url).substr(at, end - at));
      at = end + 1;
    }
    return name;
  }
  const auto normal = [](const fs::path& any) { return any.lexically_normal(); };
  const fs::path folder =
      is_folder(path) ? normal(path_of(path) / "x").parent_path() : normal(path_of(path)).parent_path();
  const fs::path whole = normal(path_of(std::string(file.shard_path(shard))));
  const fs::path name = whole.lexically_relative(folder.empty() ? "." : folder);
  const bool is_below = !name.empty() && *name.begin() != "..";
  const std::u8string text = (is_below ? name : whole.filename()).generic_u8string();
  return {text.begin(), text.end()};
}

std::string stem_of_model(const std::string& path, const safetensors::SafeOpen& file) {
  const std::string index = is_folder(path) ? index_in(path) : last_part(path);
  if (index.ends_with(kIndexEnding)) return without(index, kIndexEnding);
  const std::string shard = without_extension(last_part(std::string(file.shard_path(0))));
  return file.count_shards() > 1 ? without_number(shard) : shard;
}

std::string name_of_index(const std::string& path, const safetensors::SafeOpen& file) {
  if (is_index_name(path)) return last_part(path);
  return stem_of_model(path, file) + std::string(kIndexEnding);
}

// ---- tensors and metadata -------------------------------------------------------------------------------------------

std::uint64_t NewFile::bytes() const {
  std::uint64_t sum = 0;
  for (const NewTensor& tensor : tensors) sum += tensor.bytes();
  return sum;
}

std::vector<NewTensor> all_tensors(const SafeOpen& file) {
  std::vector<NewTensor> tensors;
  tensors.reserve(file.size());
  for (const safetensors::Tensor& tensor : file) {
    tensors.push_back({file, tensor, std::string(tensor.name), tensor.dtype});
  }
  return tensors;
}

// Needed because the library returns only the metadata of a model's index and first shard, and hides an empty map.
WholeMetadata metadata_of_all(const SafeOpen& file) {
  WholeMetadata all{file.metadata(), {}, file.has_metadata()};
  std::erase_if(all.first, is_hint);
  for (std::size_t i = 0; i < file.count_shards(); ++i) {
    const SafeOpen shard = open_shard(file, i);
    for (const auto& pair : shard.metadata()) {
      const auto [found, is_new] = all.first.insert(pair);
      if (is_new || found->second == pair.second) continue;
      const auto [begin, end] = all.others.equal_range(pair.first);
      if (std::none_of(begin, end, [&](const auto& other) { return other.second == pair.second; })) {
        all.others.insert(pair);
      }
    }
    if (i == 0) all.has_metadata = shard.has_metadata();
  }
  all.has_metadata = all.has_metadata || !all.first.empty();
  return all;
}

NewModel in_one_file(std::vector<NewTensor> tensors, const SafeOpen& file) {
  WholeMetadata all = metadata_of_all(file);
  for (auto at = all.others.begin(); at != all.others.end(); at = all.others.upper_bound(at->first)) {
    std::fprintf(stderr, "safetensors: note: shards have different values for metadata key %s; the first one is kept\n",
                 shown(at->first, 100).c_str());
  }
  return {{{{}, std::move(tensors), std::move(all.first), all.has_metadata}}, {}, {}};
}

NewModel in_same_files(std::vector<NewTensor> tensors, const std::string& path, const SafeOpen& file) {
  NewModel model;
  std::map<std::size_t, std::size_t> numbers;  // old shard -> index of its new file
  const auto file_of = [&](std::size_t shard) -> NewFile& {
    const auto [found, is_new] = numbers.emplace(shard, model.files.size());
    if (is_new) {
      const SafeOpen alone = open_shard(file, shard);
      model.files.push_back({name_of_shard(file, path, shard), {}, alone.metadata(), alone.has_metadata()});
    }
    return model.files[found->second];
  };
  for (NewTensor& tensor : tensors) file_of(tensor.source.shard()).tensors.push_back(std::move(tensor));
  if (model.files.empty()) {  // an index without tensors is invalid, but numbered shards need no index
    for (std::size_t i = 0; i < file.count_shards(); ++i) file_of(i);
    return model;
  }
  if (file.count_shards() == 1) {  // an index that names it is not written, but its metadata is kept
    NewFile& only = model.files.front();
    for (const auto& pair : file.metadata()) {
      if (!is_hint(pair)) only.metadata.insert_or_assign(pair.first, pair.second);
    }
    only.has_metadata = only.has_metadata || !only.metadata.empty();
    return model;
  }
  model.index = name_of_index(path, file);
  model.metadata = file.metadata();
  std::erase_if(model.metadata, is_hint);
  return model;
}

NewModel in_shards(std::vector<NewTensor> tensors, std::uint64_t most_bytes, const std::string& name,
                   const SafeOpen& file) {
  NewModel whole = in_one_file({}, file);
  NewModel model;
  std::uint64_t room = 0;
  for (NewTensor& tensor : tensors) {
    const std::uint64_t bytes = tensor.bytes();
    if (model.files.empty() || (bytes > room && !model.files.back().tensors.empty())) {
      give_shard_metadata(model.files.emplace_back(), whole.files[0]);
      room = most_bytes;
    }
    model.files.back().tensors.push_back(std::move(tensor));
    room -= std::min(room, bytes);
  }
  if (model.files.size() <= 1) {
    if (!model.files.empty()) whole.files[0].tensors = std::move(model.files[0].tensors);
    whole.files[0].name = name + ".safetensors";
    return whole;
  }
  for (std::size_t i = 0; i < model.files.size(); ++i) {
    model.files[i].name = formatted("{}-{:05}-of-{:05}.safetensors", name, i + 1, model.files.size());
  }
  model.index = name + ".safetensors.index.json";
  model.metadata = std::move(whole.files[0].metadata);
  std::erase_if(model.metadata, is_hint);
  return model;
}

}  // namespace cli
