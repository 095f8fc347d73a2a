// Which tensor goes into which file, and which metadata with it.
// SPDX-License-Identifier: Apache-2.0
#include "new_model.hpp"

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <map>

#include "formatted.hpp"
#include "model_names.hpp"
#include "text.hpp"

namespace cli {
namespace {

using safetensors::Metadata;
using safetensors::SafeOpen;

// What an index has of its own, and a shard for the user's own under the same key.
bool is_hint(const std::pair<const std::string, std::string>& pair) {
  return pair.first == "total_size" || pair.first == "total_parameters";
}

SafeOpen opened_shard(const SafeOpen& file, std::size_t shard) { return SafeOpen(std::string(file.shard_path(shard))); }

// What belongs to every shard, so that a program which opens one of them alone knows whose tensors they are.
void give_shard_metadata(NewFile& shard, const NewFile& whole) {
  const Metadata& all = whole.metadata;
  const auto format = all.find("format");
  if (format != all.end()) shard.metadata.insert(*format);
  // The index has numbers of its own under these keys.
  std::copy_if(all.begin(), all.end(), std::inserter(shard.metadata, shard.metadata.end()), is_hint);
  shard.has_metadata = !shard.metadata.empty() || (whole.has_metadata && all.empty());
}

}  // namespace

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

// A model has the metadata of its index and of its first shard only, and does not tell of an empty map.
WholeMetadata metadata_of_all(const SafeOpen& file) {
  WholeMetadata all{file.metadata(), {}, file.has_metadata()};
  std::erase_if(all.first, is_hint);
  for (std::size_t i = 0; i < file.count_shards(); ++i) {
    const SafeOpen shard = opened_shard(file, i);
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
    std::fprintf(stderr, "safetensors: note: metadata for %s is not the same in all shards, the first value is kept\n",
                 shown(at->first, 100).c_str());
  }
  return {{{{}, std::move(tensors), std::move(all.first), all.has_metadata}}, {}, {}};
}

NewModel in_same_files(std::vector<NewTensor> tensors, const std::string& path, const SafeOpen& file) {
  NewModel model;
  std::map<std::size_t, std::size_t> numbers;  // of a shard among the new files
  for (NewTensor& tensor : tensors) {
    const std::size_t shard = tensor.source.shard();
    const auto [found, is_new] = numbers.emplace(shard, model.files.size());
    if (is_new) {
      const SafeOpen alone = opened_shard(file, shard);
      model.files.push_back({name_of_shard(file, path, shard), {}, alone.metadata(), alone.has_metadata()});
    }
    model.files[found->second].tensors.push_back(std::move(tensor));
  }
  if (file.count_shards() == 1) return model;
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
