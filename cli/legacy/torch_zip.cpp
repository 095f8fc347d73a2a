// What torch.save writes since 1.6: a zip archive of NAME/data.pkl and a file NAME/data/KEY for each storage.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <unordered_map>

#include "refusal.hpp"
#include "storage_reader.hpp"
#include "torch.hpp"

namespace cli::legacy {
namespace {

constexpr std::string_view kPickle = "/data.pkl";
constexpr std::uint64_t kLongestNote = 64;

using Entries = std::unordered_map<std::string_view, const ZipEntry*>;

const ZipEntry* find(const Entries& entries, const std::string& name) {
  const auto found = entries.find(name);
  return found == entries.end() ? nullptr : found->second;
}

std::string find_root(const std::vector<ZipEntry>& entries) {
  std::string root;
  for (const ZipEntry& entry : entries) {
    if (!entry.name.ends_with(kPickle)) continue;
    if (!root.empty()) refuse(entry.begin, "has two pickles, '{}' and '{}{}'", entry.name, root, kPickle);
    root = entry.name.substr(0, entry.name.size() - kPickle.size());
  }
  if (root.empty()) refuse(kNowhere, "is a zip archive without data.pkl or .npy: neither of torch nor of numpy");
  return root;
}

void check_order(const Input& input, const ZipEntry* order) {
  if (order == nullptr) return;
  const std::string word = read_whole(input, storage_of(*order), kLongestNote);
  if (word != "little") refuse(order->begin, "has numbers in the byte order '{}'", word);
}

}  // namespace

Checkpoint read_torch_zip(std::unique_ptr<const Input> input, const std::vector<ZipEntry>& entries) {
  const std::string root = find_root(entries);
  Entries by_name;
  for (const ZipEntry& entry : entries) by_name.emplace(entry.name, &entry);
  if (find(by_name, root + "/constants.pkl") != nullptr) {
    refuse(kNowhere, "is a TorchScript program, not a state dict: save its state_dict()");
  }
  check_order(*input, find(by_name, root + "/byteorder"));

  const ZipEntry& entry = *find(by_name, root + std::string(kPickle));
  const Input content = Input::of_memory(read_whole(*input, storage_of(entry), kLongestPickle));
  Cursor cursor(content, 0, content.size(), entry.deflated ? 0 : entry.begin);
  const Pickle pickle = read_pickle(cursor, torch_globals());
  if (cursor.left() != 0) refuse(cursor.offset(), "has {} bytes behind its pickle", cursor.left());

  Checkpoint checkpoint;
  std::unordered_map<std::string, std::size_t> numbers;
  add_tensors(
      pickle,
      [&](const StorageName& name) {
        const auto [known, is_new] = numbers.try_emplace(std::string(name.key), checkpoint.storages.size());
        if (is_new) {
          const ZipEntry* data = find(by_name, root + "/data/" + known->first);
          if (data == nullptr) refuse(name.offset, "has no storage '{}'", name.key);
          checkpoint.storages.push_back(storage_of(*data));
        }
        const Storage& storage = checkpoint.storages[known->second];
        if (bytes_of(name) != storage.bytes) {
          refuse(name.offset, "storage '{}' has {} bytes, and {} elements of {}", name.key, storage.bytes,
                 name.elements, name.type.name);
        }
        return known->second;
      },
      checkpoint);
  checkpoint.input = std::move(input);
  return checkpoint;
}

}  // namespace cli::legacy
