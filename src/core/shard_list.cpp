// SPDX-License-Identifier: Apache-2.0
#include "core/shard_list.hpp"

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/error.hpp"
#include "io/os_error.hpp"

namespace st::core {

namespace {

constexpr std::string_view kIndexEnding = ".safetensors.index.json";
constexpr std::string_view kModelEnding = ".safetensors";

// NAME-00001-of-00003.safetensors
struct NumberedShard {
  std::string_view name;
  std::uint64_t number = 0;
  std::uint64_t count = 0;
};

std::optional<std::uint64_t> take_number(std::string_view& text) {
  const std::size_t first = text.find_last_not_of("0123456789") + 1;
  std::uint64_t number = 0;
  const auto [stop, problem] = std::from_chars(text.data() + first, text.data() + text.size(), number);
  if (problem != std::errc{}) return std::nullopt;
  text = text.substr(0, first);
  return number;
}

bool take_ending(std::string_view& text, std::string_view ending) {
  if (!text.ends_with(ending)) return false;
  text.remove_suffix(ending.size());
  return true;
}

std::optional<NumberedShard> numbered_shard(std::string_view file) {
  if (!take_ending(file, kModelEnding)) return std::nullopt;
  const auto count = take_number(file);
  if (!count || !take_ending(file, "-of-")) return std::nullopt;
  const auto number = take_number(file);
  if (!number || !take_ending(file, "-")) return std::nullopt;
  return NumberedShard{file, *number, *count};
}

[[noreturn]] void fail_missing(std::string_view folder, std::size_t number, const NumberedShard& first) {
  throw Error{Status::shard, io::no_such_file(), kNowhere,
              formatted("folder {}: shard {} of {} of {} is missing", in_quotes(folder), number, first.count,
                        in_quotes(first.name))};
}

void require_complete_set(const std::vector<std::string>& files, std::string_view folder) {
  const NumberedShard first = *numbered_shard(files.front());
  for (std::size_t i = 0; i < files.size(); ++i) {
    const NumberedShard shard = *numbered_shard(files[i]);
    if (shard.name != first.name || shard.count != first.count) {
      fail(Status::open, "folder {} holds shards of several models, {} and {}: open the index of one",
           in_quotes(folder), in_quotes(files.front()), in_quotes(files[i]));
    }
    if (shard.number != i + 1) fail_missing(folder, i + 1, first);
  }
  if (files.size() != first.count) fail_missing(folder, files.size() + 1, first);
}

// The numbered shards that the model of this index would have.
std::vector<std::string> likely_shards(const std::vector<std::string>& names, std::string_view index) {
  std::vector<std::string> likely;
  if (!take_ending(index, kIndexEnding)) return likely;
  for (const std::string& name : names) {
    if (const auto shard = numbered_shard(name); shard && shard->name == index) likely.push_back(name);
  }
  return likely;
}

std::vector<std::string> likely_shards_in(const io::Folder& folder, std::string_view index) {
  try {
    return likely_shards(folder.names(), index);
  } catch (const Error&) {
    return {};  // a folder that may be entered but not listed
  }
}

}  // namespace

bool is_index_name(std::string_view path) { return path.ends_with(".index.json"); }

ShardList shards_of_index(std::string_view path) {
  const io::SplitPath split = io::split_path(path);
  auto folder = io::open_folder(split.folder);
  std::vector<std::string> files = likely_shards_in(*folder, split.name);
  return {std::move(folder), split.name, std::move(files)};
}

ShardList shards_of_folder(std::unique_ptr<io::Folder> folder) {
  const std::string& path = folder->path();
  std::vector<std::string> indexes;
  std::vector<std::string> models;
  std::vector<std::string> shards;
  for (std::string& name : folder->names()) {
    if (name.ends_with(kIndexEnding)) {
      indexes.push_back(std::move(name));
    } else if (numbered_shard(name)) {
      shards.push_back(std::move(name));
    } else if (name.ends_with(kModelEnding)) {
      models.push_back(std::move(name));
    }
  }
  // The usual name wins where there are several.
  for (auto* const names : {&indexes, &models}) {
    const auto usual = std::find_if(names->begin(), names->end(),
                                    [](const auto& name) { return name.starts_with("model.safetensors"); });
    if (usual != names->end()) *names = {*usual};
  }
  if (indexes.size() == 1) return {std::move(folder), indexes.front(), likely_shards(shards, indexes.front())};
  if (indexes.empty() && models.size() == 1) return {std::move(folder), {}, models};
  if (indexes.size() + models.size() > 1) {
    const auto& several = indexes.empty() ? models : indexes;
    fail(Status::open, "folder {} holds several models, {} and {}: open one of them", in_quotes(path),
         in_quotes(several[0]), in_quotes(several[1]));
  }
  if (shards.empty()) fail(Status::open, "folder {} holds no safetensors file", in_quotes(path));
  require_complete_set(shards, path);
  return {std::move(folder), {}, shards};
}

}  // namespace st::core
