// The layout of a new model, before it is written: which tensors and metadata go into which file, and the files' names.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <safetensors/safetensors.hpp>

namespace cli {

struct NewTensor {
  safetensors::SafeOpen file;
  safetensors::Tensor source;
  std::string name;
  safetensors::Dtype dtype;  // values are converted if the source has another one

  std::uint64_t bytes() const { return source.elements() * safetensors::bits(dtype) / 8; }
};

struct NewFile {
  std::string name;  // in the folder; empty if the model is one file
  std::vector<NewTensor> tensors;
  safetensors::Metadata metadata;
  bool has_metadata = false;  // an empty map differs from none

  std::uint64_t bytes() const;
};

struct NewModel {
  std::vector<NewFile> files;
  std::string index;               // its name; empty if there is none
  safetensors::Metadata metadata;  // of the index
};

// Returns all tensors in data order.
std::vector<NewTensor> all_tensors(const safetensors::SafeOpen& file);

// The metadata of a model's index and of all its shards.
struct WholeMetadata {
  safetensors::Metadata first;                     // the first value of each key
  std::multimap<std::string, std::string> others;  // further values, each once
  bool has_metadata = false;
};
WholeMetadata metadata_of_all(const safetensors::SafeOpen& file);

// ---- layouts

// All tensors in one file, with the metadata of `file`.
NewModel in_one_file(std::vector<NewTensor> tensors, const safetensors::SafeOpen& file);

// Each tensor in a shard with the name of its old shard, and an index if there was more than one shard.
NewModel in_same_files(std::vector<NewTensor> tensors, const std::string& path, const safetensors::SafeOpen& file);

// Shards NAME-00001-of-00003.safetensors of at most `most_bytes` of data each, in the given order. A larger tensor gets
// its own shard. A single shard is NAME.safetensors, without an index.
NewModel in_shards(std::vector<NewTensor> tensors, std::uint64_t most_bytes, const std::string& name,
                   const safetensors::SafeOpen& file);

// ---- names

// Returns the extensions of all formats that are written, for messages: ".a, .b or .c".
std::string known_extensions();

// Returns the format that files with this extension have.
std::optional<st_format> format_of_extension(const std::string& path);

// Returns whether an output is one file rather than a folder, because of its extension or because it is "-".
bool is_one_file(const std::string& out);

// Returns whether an output has the extension of a format that the command does not write, and is not a folder.
bool is_other_file(const std::string& out);

// Returns the name of a shard's file, relative to the folder of the model.
std::string name_of_shard(const safetensors::SafeOpen& file, const std::string& path, std::size_t shard);

// Returns the name that the model's index has or would have.
std::string name_of_index(const std::string& path, const safetensors::SafeOpen& file);

// Returns "model" for model.safetensors, for model.safetensors.index.json, and for a folder with either.
std::string stem_of_model(const std::string& path, const safetensors::SafeOpen& file);

}  // namespace cli
