// What `split`, `merge`, `rename`, `extract --filter` and `cast` write: tensors of open files under old or new names, in
// one file or in the shards of a model.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <safetensors/safetensors.hpp>

namespace cli {

class Command;

struct NewTensor {
  safetensors::SafeOpen file;
  safetensors::Tensor source;
  std::string name;
  safetensors::Dtype dtype;  // if it is not the source's, the values are converted

  std::uint64_t bytes() const { return source.elements() * safetensors::bits(dtype) / 8; }
};

struct NewFile {
  std::string name;  // in the folder; empty: the path itself is the file
  std::vector<NewTensor> tensors;
  safetensors::Metadata metadata;
  bool has_metadata = false;  // an empty map is not the same as none

  std::uint64_t bytes() const;
};

struct NewModel {
  std::vector<NewFile> files;
  std::string index;               // its name; empty: there is none
  safetensors::Metadata metadata;  // of the index
};

struct WriteSettings {
  std::string out;
  bool no_replace = false;
  bool dry_run = false;

  void declare(Command& command);
};

// The tensors of a file in the order of their data.
std::vector<NewTensor> all_tensors(const safetensors::SafeOpen& file);

// That of a model's index and of all its shards. Of a key that has several values the first counts.
struct WholeMetadata {
  safetensors::Metadata first;
  std::multimap<std::string, std::string> others;  // each value once
  bool has_metadata = false;
};
WholeMetadata metadata_of_all(const safetensors::SafeOpen& file);

// All tensors in one file, with the metadata of `file`, a single file or a model.
NewModel in_one_file(std::vector<NewTensor> tensors, const safetensors::SafeOpen& file);

// Each tensor in a shard of the name that its shard has, with an index if there was more than one shard.
NewModel in_same_files(std::vector<NewTensor> tensors, const std::string& path, const safetensors::SafeOpen& file);

// Shards NAME-00001-of-00003.safetensors of at most `most_bytes` of data each, in the order given; a tensor that is larger
// has one of its own. One shard is NAME.safetensors, without an index.
NewModel in_shards(std::vector<NewTensor> tensors, std::uint64_t most_bytes, const std::string& name,
                   const safetensors::SafeOpen& file);

// Writes it, or tells on standard output what would be written. Throws a Failure, or an Error of the library.
// What is read is never overwritten, except that a single file may be replaced by what is made of it.
struct Input {
  std::string path;
  safetensors::SafeOpen file;
};
void write_model(const NewModel& model, const WriteSettings& settings, const std::vector<Input>& inputs);

// Writes to one file, or to a folder in shards as those of the input, as settings.out is called.
void write_like(std::vector<NewTensor> tensors, const Input& input, const WriteSettings& settings);

}  // namespace cli
