// Reads the two containers of torch.save.
//
// Since torch 1.6 it writes a zip archive of NAME/data.pkl and NAME/data/KEY for each storage. Before, it wrote pickles of
// a magic number, a version, the machine, the state dict and the keys of the storages, followed by the storages. Each
// storage begins with its number of elements.
// SPDX-License-Identifier: Apache-2.0
#include <unordered_map>

#include "error.hpp"
#include "formats.hpp"
#include "storage.hpp"
#include "torch_tensors.hpp"

namespace cli::importer {
namespace {

// ---- the zip form ----------------------------------------------------------------------------------------------------------

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
    if (!root.empty()) fail(entry.begin, "two pickles, '{}' and '{}{}'", entry.name, root, kPickle);
    root = entry.name.substr(0, entry.name.size() - kPickle.size());
  }
  if (root.empty()) fail(kNoOffset, "zip archive without data.pkl or .npy files: not written by torch or numpy");
  return root;
}

void check_order(const Input& input, const ZipEntry* order) {
  if (order == nullptr) return;
  const std::string word = read_whole(input, storage_of(*order), kLongestNote);
  if (word != "little") fail(order->begin, "unsupported byte order '{}' (supported: little)", word);
}

// ---- the stacked form --------------------------------------------------------------------------------------------------

constexpr std::string_view kMagic = "\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19";
constexpr std::int64_t kVersion = 1001;

// Headers may not use any names.
Pickle read_header(Cursor& cursor) { return read_pickle(cursor, {}); }

void read_headers(Cursor& cursor) {
  const Pickle magic = read_header(cursor);
  const Value& number = magic[magic.root];
  if (number.kind != Kind::big || number.text != kMagic) fail(0, "pickle that is not from torch.save");
  const std::uint64_t at = cursor.offset();
  const Pickle version = read_header(cursor);
  if (version[version.root].kind != Kind::integer || version[version.root].integer != kVersion) {
    fail(at, "unsupported version of torch.save (supported: {})", kVersion);
  }
  const Pickle machine = read_header(cursor);
  const std::vector<ValueId>& facts = machine[machine.root].items;
  for (std::size_t i = 0; machine[machine.root].kind == Kind::dict && i < facts.size(); i += 2) {
    if (machine[facts[i]].text != "little_endian") continue;
    const Value& fact = machine[facts[i + 1]];
    if (fact.kind != Kind::boolean || fact.integer != 1)
      fail(fact.offset, "unsupported byte order 'big' (supported: little)");
  }
}

// Collects the references to each storage. Only they have the size of its elements.
std::unordered_map<std::string_view, StorageName> storage_names(const Pickle& pickle) {
  std::unordered_map<std::string_view, StorageName> names;
  for (const Value& value : pickle.values) {
    if (value.kind != Kind::persistent) continue;
    const StorageName name = read_storage_name(pickle, value);
    const auto [known, is_new] = names.try_emplace(name.key, name);
    if (!is_new && bytes_of(known->second) != bytes_of(name)) {
      fail(name.offset, "storage '{}' has two sizes, {} and {} bytes", name.key, bytes_of(known->second),
           bytes_of(name));
    }
  }
  return names;
}

// Returns the range of a storage in the file, and leaves the cursor after it.
Storage read_storage(Cursor& cursor, const StorageName& name) {
  const std::uint64_t at = cursor.offset();
  const std::uint64_t elements = cursor.u64();
  const std::uint64_t bytes = bytes_of(name);
  if (elements != name.elements) {
    fail(at, "storage '{}' has {} elements, expected {}", name.key, elements, name.elements);
  }
  if (bytes > cursor.left()) {
    fail(at, "storage '{}' has {} bytes, but {} are left: the file is incomplete", name.key, bytes, cursor.left());
  }
  Storage storage{std::string(name.key), cursor.position(), bytes, bytes, false, {}};
  cursor.skip(bytes);
  return storage;
}

}  // namespace

Checkpoint read_torch_zip(std::unique_ptr<const Input> input, const std::vector<ZipEntry>& entries) {
  const std::string root = find_root(entries);
  Entries by_name;
  for (const ZipEntry& entry : entries) by_name.emplace(entry.name, &entry);
  if (find(by_name, root + "/constants.pkl") != nullptr) {
    fail(kNoOffset, "TorchScript program: save its state_dict() instead");
  }
  check_order(*input, find(by_name, root + "/byteorder"));

  const ZipEntry& entry = *find(by_name, root + std::string(kPickle));
  const Input content = Input::of_memory(read_whole(*input, storage_of(entry), kLongestPickle));
  Cursor cursor(content, 0, content.size(), entry.deflated ? 0 : entry.begin);
  const Pickle pickle = read_pickle(cursor, torch_globals());
  if (cursor.left() != 0) fail(cursor.offset(), "{} bytes after the pickle", cursor.left());

  Checkpoint checkpoint;
  std::unordered_map<std::string, std::size_t> numbers;
  add_tensors(
      pickle,
      [&](const StorageName& name) {
        const auto [known, is_new] = numbers.try_emplace(std::string(name.key), checkpoint.storages.size());
        if (is_new) {
          const ZipEntry* data = find(by_name, root + "/data/" + known->first);
          if (data == nullptr) fail(name.offset, "no storage '{}'", name.key);
          checkpoint.storages.push_back(storage_of(*data));
        }
        const Storage& storage = checkpoint.storages[known->second];
        if (bytes_of(name) != storage.bytes) {
          fail(name.offset, "storage '{}' has {} bytes, expected {} elements of {}", name.key, storage.bytes,
               name.elements, name.type.name);
        }
        return known->second;
      },
      checkpoint);
  checkpoint.input = std::move(input);
  return checkpoint;
}

Checkpoint read_torch_stacked(std::unique_ptr<const Input> input) {
  Cursor cursor(*input, 0, input->size());
  read_headers(cursor);
  const Pickle pickle = read_pickle(cursor, torch_globals());
  const std::uint64_t at = cursor.offset();
  const Pickle keys = read_header(cursor);
  if (keys[keys.root].kind != Kind::list)
    fail(at, "expected a list of storage keys, found a {}", name_of(keys[keys.root].kind));

  const auto names = storage_names(pickle);
  std::unordered_map<std::string_view, std::size_t> numbers;
  Checkpoint checkpoint;
  for (const ValueId id : keys[keys.root].items) {
    const Value& key = keys[id];
    const auto name = names.find(key.text);
    if (key.kind != Kind::text || name == names.end()) fail(key.offset, "storage that no tensor uses");
    if (!numbers.try_emplace(name->first, checkpoint.storages.size()).second) {
      fail(key.offset, "storage '{}' occurs twice", key.text);
    }
    checkpoint.storages.push_back(read_storage(cursor, name->second));
  }
  if (cursor.left() != 0) fail(cursor.offset(), "{} bytes after the last storage", cursor.left());

  add_tensors(
      pickle,
      [&](const StorageName& name) {
        const auto found = numbers.find(name.key);
        if (found == numbers.end()) fail(name.offset, "no storage '{}'", name.key);
        return found->second;
      },
      checkpoint);
  checkpoint.input = std::move(input);
  return checkpoint;
}

}  // namespace cli::importer
