// SPDX-License-Identifier: Apache-2.0
#include "core/shard_list.hpp"

#include <algorithm>
#include <charconv>
#include <optional>
#include <tuple>
#include <utility>

#include "base/error.hpp"
#include "io/os.hpp"

namespace st::core {

namespace {

constexpr std::string_view kIndexEnding = ".safetensors.index.json";
constexpr std::string_view kModelEnding = ".safetensors";
constexpr std::string_view kUsualIndex = "model.safetensors.index.json";
constexpr std::string_view kUsualModel = "model.safetensors";

// NAME-00001-of-00003.safetensors
struct NumberedShard {
  std::string_view name;
  std::uint64_t number = 0;
  std::uint64_t count = 0;
};

// The files of a directory that may be its model, each list ascending by bytes.
struct Candidates {
  std::vector<std::string> indexes;
  std::vector<std::string> shards;  // numbered
  std::vector<std::string> models;  // all other files
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

Candidates candidates_in(const io::Directory& folder) {
  Candidates found;
  for (std::string& name : folder.names()) {
    if (name.ends_with(kIndexEnding)) {
      found.indexes.push_back(std::move(name));
    } else if (numbered_shard(name)) {
      found.shards.push_back(std::move(name));
    } else if (name.ends_with(kModelEnding)) {
      found.models.push_back(std::move(name));
    }
  }
  return found;
}

bool contains(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

[[noreturn]] void fail_several(std::string_view folder, std::string_view first, std::string_view second) {
  fail(Status::open, "folder {} holds several models, {} and {}: open one of them", in_quotes(folder), in_quotes(first),
       in_quotes(second));
}

[[noreturn]] void fail_missing(std::string_view folder, std::uint64_t number, const NumberedShard& first) {
  throw Error{Status::shard, io::no_such_file(), kNowhere,
              formatted("folder {}: shard {} of {} of {} is missing", in_quotes(folder), number, first.count,
                        in_quotes(first.name))};
}

// Sorts the files by their numbers, and throws unless they are all shards of one model, each once.
void require_complete_set(std::vector<std::string>& files, std::string_view folder) {
  const NumberedShard first = *numbered_shard(files.front());
  for (const std::string& file : files) {
    const NumberedShard shard = *numbered_shard(file);
    if (shard.name != first.name || shard.count != first.count) {
      fail(Status::open, "folder {} holds shards of several models, {} and {}: open the index of one",
           in_quotes(folder), in_quotes(files.front()), in_quotes(file));
    }
    if (shard.number == 0 || shard.number > shard.count) {
      fail(Status::shard, "folder {}: the number of {} is not from 1 to {}", in_quotes(folder), in_quotes(file),
           shard.count);
    }
  }
  std::stable_sort(files.begin(), files.end(), [](const std::string& a, const std::string& b) {
    return numbered_shard(a)->number < numbered_shard(b)->number;
  });
  std::uint64_t expected = 1;
  for (std::size_t i = 0; i < files.size(); ++i, ++expected) {
    const std::uint64_t number = numbered_shard(files[i])->number;
    if (number > expected) fail_missing(folder, expected, first);
    if (number < expected) {
      fail(Status::open, "folder {}: {} and {} are both shard {} of {}", in_quotes(folder), in_quotes(files[i - 1]),
           in_quotes(files[i]), number, first.count);
    }
  }
  if (expected <= first.count) fail_missing(folder, expected, first);
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

std::vector<std::string> likely_shards_in(const io::Directory& folder, std::string_view index) {
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
  auto folder = io::open_directory(split.directory);
  std::vector<std::string> files = likely_shards_in(*folder, split.name);
  return {std::move(folder), split.name, std::move(files)};
}

ShardList shards_of_folder(std::unique_ptr<io::Directory> folder) {
  const std::string& path = folder->path();
  auto [indexes, shards, models] = candidates_in(*folder);
  if (contains(indexes, kUsualIndex)) {
    indexes = {std::string(kUsualIndex)};
  } else if (contains(models, kUsualModel)) {
    return {std::move(folder), {}, {std::string(kUsualModel)}};
  }
  if (indexes.size() > 1) fail_several(path, indexes[0], indexes[1]);
  if (indexes.size() == 1) return {std::move(folder), indexes.front(), likely_shards(shards, indexes.front())};
  if (models.size() > 1) fail_several(path, models[0], models[1]);
  if (models.size() == 1 && !shards.empty()) fail_several(path, models[0], shards[0]);
  if (models.size() == 1) return {std::move(folder), {}, models};
  if (shards.empty()) fail(Status::open, "folder {} holds no safetensors file", in_quotes(path));
  require_complete_set(shards, path);
  return {std::move(folder), {}, shards};
}

// Some network filesystems number all files alike: 0 is no number, and size and times are compared as well.
std::optional<SameFile> find_same_file(std::span<const std::optional<io::Identity>> shards) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    if (shards[i] && shards[i]->inode != 0) order.push_back(i);
  }
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::tie(shards[a]->device, shards[a]->inode, a) < std::tie(shards[b]->device, shards[b]->inode, b);
  });
  std::optional<SameFile> found;
  for (std::size_t i = 1; i < order.size(); ++i) {
    const SameFile same{order[i - 1], order[i]};
    if (*shards[same.first] == *shards[same.second] && (!found || same.second < found->second)) found = same;
  }
  return found;
}

}  // namespace st::core
