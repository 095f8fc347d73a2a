// SPDX-License-Identifier: Apache-2.0
#include "core/model_files.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <utility>

#include "base/error.hpp"
#include "base/text.hpp"
#include "io/os.hpp"
#include "io/source.hpp"

namespace st::core {

namespace {

using FileNames = std::vector<std::string>;

constexpr std::string_view kIndexEnding = ".safetensors.index.json";
constexpr std::string_view kFileEnding = ".safetensors";
constexpr std::string_view kUsualIndex = "model.safetensors.index.json";
constexpr std::string_view kUsualFile = "model.safetensors";
constexpr std::string_view kUsualSet = "model";  // model-00001-of-00003.safetensors and so on

bool contains(const FileNames& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// ---- numbered shards ------------------------------------------------------------------------------------------------

// NAME-00001-of-00003.safetensors
struct NumberedShard {
  std::string_view set;  // NAME
  std::uint64_t number = 0;
  std::uint64_t count = 0;
};

bool take_ending(std::string_view& text, std::string_view ending) {
  if (!ends_with(text, ending)) return false;
  text.remove_suffix(ending.size());
  return true;
}

std::optional<std::uint64_t> take_number(std::string_view& text) {
  const std::size_t first = text.find_last_not_of("0123456789") + 1;
  std::uint64_t number = 0;
  const auto [stop, problem] = std::from_chars(text.data() + first, text.data() + text.size(), number);
  if (problem != std::errc{}) return std::nullopt;
  text = text.substr(0, first);
  return number;
}

std::optional<NumberedShard> numbered_shard(std::string_view file) {
  if (!take_ending(file, kFileEnding)) return std::nullopt;
  const auto count = take_number(file);
  if (!count || !take_ending(file, "-of-")) return std::nullopt;
  const auto number = take_number(file);
  if (!number || !take_ending(file, "-")) return std::nullopt;
  return NumberedShard{file, *number, *count};
}

FileNames shards_of_set(const FileNames& shards, std::string_view set) {
  FileNames found;
  std::copy_if(shards.begin(), shards.end(), std::back_inserter(found),
               [&](const std::string& file) { return numbered_shard(file)->set == set; });
  return found;
}

// Sorts the shards by their numbers. Throws unless they are one complete set without duplicates.
void sort_set(FileNames& shards, std::string_view directory) {
  const std::string front = shards.front();  // `first` is a view of it, and sorting moves the strings
  const NumberedShard first = *numbered_shard(front);
  const auto fail_missing = [&](std::uint64_t number) {
    throw Error{Status::shard, io::no_such_file(), kNowhere,
                formatted("directory {}: shard {} of {} of {} is missing", in_quotes(directory), number, first.count,
                          in_quotes(first.set))};
  };
  for (const std::string& file : shards) {
    const NumberedShard shard = *numbered_shard(file);
    if (shard.set != first.set || shard.count != first.count) {
      // Without an index, the caller cannot choose a set, because the path of a shard opens only that file.
      fail(Status::open,
           "directory {} contains shards of several models, {} and {}: write an index for one, or move one elsewhere",
           in_quotes(directory), in_quotes(shards.front()), in_quotes(file));
    }
    if (shard.number == 0 || shard.number > shard.count) {
      fail(Status::shard, "directory {}: the number of {} is not from 1 to {}", in_quotes(directory), in_quotes(file),
           shard.count);
    }
  }
  std::stable_sort(shards.begin(), shards.end(), [](const std::string& a, const std::string& b) {
    return numbered_shard(a)->number < numbered_shard(b)->number;
  });
  std::uint64_t expected = 1;
  for (std::size_t i = 0; i < shards.size(); ++i, ++expected) {
    const std::uint64_t number = numbered_shard(shards[i])->number;
    if (number > expected) fail_missing(expected);
    if (number < expected) {
      fail(Status::open, "directory {}: {} and {} are both shard {} of {}", in_quotes(directory),
           in_quotes(shards[i - 1]), in_quotes(shards[i]), number, first.count);
    }
  }
  if (expected <= first.count) fail_missing(expected);
}

// Returns the set with the usual name, or nullopt if there is none or if it is incomplete.
std::optional<FileNames> usual_set(const FileNames& shards, std::string_view directory) {
  FileNames set = shards_of_set(shards, kUsualSet);
  if (set.empty()) return std::nullopt;
  try {
    sort_set(set, directory);
  } catch (const Error&) {
    return std::nullopt;
  }
  return set;
}

// ---- directories ----------------------------------------------------------------------------------------------------

// The files of a directory that may be its model, each list in byte order.
struct Candidates {
  FileNames indexes;
  FileNames shards;  // numbered
  FileNames files;   // all others
};

Candidates candidates_in(FileNames names) {
  Candidates found;
  for (std::string& name : names) {
    if (starts_with(name, "._")) continue;  // AppleDouble: attributes of another file
    if (ends_with(name, kIndexEnding)) {
      found.indexes.push_back(std::move(name));
    } else if (numbered_shard(name)) {
      found.shards.push_back(std::move(name));
    } else if (ends_with(name, kFileEnding)) {
      found.files.push_back(std::move(name));
    }
  }
  return found;
}

[[noreturn]] void fail_several(std::string_view directory, std::string_view first, std::string_view second,
                               std::string_view advice) {
  fail(Status::open, "directory {} contains several models, {} and {}: {}", in_quotes(directory), in_quotes(first),
       in_quotes(second), advice);
}

// Returns the numbered shards that probably belong to this index.
FileNames likely_shards(const FileNames& shards, std::string_view index) {
  return take_ending(index, kIndexEnding) ? shards_of_set(shards, index) : FileNames();
}

FileNames likely_shards_in(const io::Directory& directory, std::string_view index) {
  try {
    return likely_shards(candidates_in(directory.names()).shards, index);
  } catch (const Error&) {
    return {};  // the directory may be searched but not listed
  }
}

ModelFiles files_of_index(const char* path) {
  const io::SplitPath split = io::split_path(path);
  auto directory = io::open_directory(split.directory);
  FileNames likely = likely_shards_in(*directory, split.name);
  return {std::move(directory), split.name, std::move(likely)};
}

}  // namespace

std::unique_ptr<io::Source> open_file_unless_model(const char* path) {
  return is_index_name(path) ? nullptr : io::file_source_unless_directory(path);
}

ModelFiles files_of_model(const char* path) {
  return is_index_name(path) ? files_of_index(path) : files_of_directory(io::open_directory(path));
}

ModelFiles files_of_directory(std::unique_ptr<io::Directory> directory) {
  const std::string& path = directory->path();
  auto [indexes, shards, files] = candidates_in(directory->names());
  if (contains(indexes, kUsualIndex)) {
    indexes = {std::string(kUsualIndex)};
  } else if (contains(files, kUsualFile)) {
    return {std::move(directory), {}, {std::string(kUsualFile)}};
  }
  if (indexes.size() > 1) fail_several(path, indexes[0], indexes[1], "open one of them");
  if (indexes.size() == 1) return {std::move(directory), indexes[0], likely_shards(shards, indexes[0])};
  if (auto set = usual_set(shards, path)) return {std::move(directory), {}, *std::move(set)};
  if (files.size() > 1) fail_several(path, files[0], files[1], "open one of them");
  if (files.size() == 1 && !shards.empty()) {
    fail_several(path, files[0], shards[0], "open the file, or write an index for the shards");
  }
  if (files.size() == 1) return {std::move(directory), {}, std::move(files)};
  if (shards.empty()) fail(Status::open, "directory {} contains no safetensors file", in_quotes(path));
  sort_set(shards, path);
  return {std::move(directory), {}, std::move(shards)};
}

ModelFiles files_by_name(std::unique_ptr<io::Directory> directory, std::string name) {
  if (is_index_name(name)) return {std::move(directory), std::move(name), {}};
  return {std::move(directory), {}, {std::move(name)}};
}

}  // namespace st::core
