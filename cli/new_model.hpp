// Plans a new model: its files, their names, and which tensors and metadata go into each.
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

// Puts all tensors into one file, with the metadata of `file`.
NewModel in_one_file(std::vector<NewTensor> tensors, const safetensors::SafeOpen& file);

// Puts each tensor into a shard named like its old shard. Adds an index if there was more than one shard.
NewModel in_same_files(std::vector<NewTensor> tensors, const std::string& path, const safetensors::SafeOpen& file);

// Puts tensors, in the given order, into shards NAME-00001-of-00003.safetensors with at most `most_bytes` of data each.
// A larger tensor gets its own shard. A single shard is named NAME.safetensors and has no index.
NewModel in_shards(std::vector<NewTensor> tensors, std::uint64_t most_bytes, const std::string& name,
                   const safetensors::SafeOpen& file);

// ---- names

// Returns the extensions of all writable formats for messages: ".a, .b or .c".
std::string known_extensions();

// Returns the format that belongs to the path's extension.
std::optional<st_format> format_of_extension(const std::string& path);

// Returns whether an output is one file, not a folder: it has a known extension, is "-", or is a FIFO, device or
// descriptor, which gets safetensors.
bool is_one_file(const std::string& out);

// Returns whether an output has the extension of a format that the command cannot write, and is not a folder.
bool is_other_file(const std::string& out);

// Returns the name of a shard's file, relative to the folder of the model.
std::string name_of_shard(const safetensors::SafeOpen& file, const std::string& path, std::size_t shard);

// Returns the name of the model's index, even if it has none yet.
std::string name_of_index(const std::string& path, const safetensors::SafeOpen& file);

// Returns "model" for model.safetensors, for model.safetensors.index.json, and for a folder with either.
std::string stem_of_model(const std::string& path, const safetensors::SafeOpen& file);

}  // namespace cli
