// Reads the two containers of torch.save.
//
// Since torch 1.6, a file is a zip archive with NAME/data.pkl and, for each storage, NAME/data/KEY. Older files are a
// sequence of pickles (magic number, version, machine, state dict, storage keys), followed by the storages. Each
// storage begins with its number of elements.
// SPDX-License-Identifier: Apache-2.0
#include <unordered_map>

#include "error.hpp"
#include "formats.hpp"
#include "storage.hpp"
#include "torch_tensors.hpp"
#include "torch_values.hpp"

namespace cli::importer {
namespace {

constexpr std::uint64_t kStorageBytes = 300;  // including its entries in maps

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
  if (word != "little") fail_unsupported(order->begin, "unsupported byte order '{}' (supported: little)", word);
}

// ---- the stacked form --------------------------------------------------------------------------------------------------

constexpr std::string_view kTorchMagic = "\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19";
constexpr std::int64_t kVersion = 1001;

// No names are known in these pickles.
Pickle read_header(Cursor& cursor, Budget& budget) { return read_pickle(cursor, {}, budget); }

void read_headers(Cursor& cursor, Budget& budget) {
  const Pickle magic = read_header(cursor, budget);
  const Value& number = magic[magic.root];
  if (number.kind != Kind::big || number.text != kTorchMagic) fail(0, "pickle that is not from torch.save");
  const std::uint64_t at = cursor.offset();
  const Pickle version = read_header(cursor, budget);
  if (version[version.root].kind != Kind::integer || version[version.root].integer != kVersion) {
    fail(at, "unsupported version of torch.save (supported: {})", kVersion);
  }
  const Pickle machine = read_header(cursor, budget);
  const Value& dict = machine[machine.root];
  if (dict.kind != Kind::dict)
    fail(dict.offset, "expected a dictionary describing the machine, found a {}", name_of(dict.kind));
  const std::vector<ValueId>& facts = dict.items;
  for (std::size_t i = 0; i < facts.size(); i += 2) {
    if (machine[facts[i]].text != "little_endian") continue;
    const Value& fact = machine[facts[i + 1]];
    if (fact.kind != Kind::boolean || fact.integer != 1)
      fail_unsupported(fact.offset, "unsupported byte order 'big' (supported: little)");
  }
}

// Collects the references to each storage, because only the references contain the element size.
std::unordered_map<std::string_view, StorageName> storage_names(const Pickle& pickle, Budget& budget) {
  std::unordered_map<std::string_view, StorageName> names;
  for (const Value& value : pickle.values) {
    if (value.kind != Kind::persistent || !is_storage(pickle, value)) continue;
    const StorageName name = read_storage_name(pickle, value);
    const auto [known, is_new] = names.try_emplace(name.key, name);
    if (is_new) budget.charge(kStorageBytes, name.offset);
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

void read_torch_zip(Checkpoint& checkpoint, const std::vector<ZipEntry>& entries, const std::string& key) {
  const std::string root = find_root(entries);
  Entries by_name;
  for (const ZipEntry& entry : entries) by_name.emplace(entry.name, &entry);
  if (find(by_name, root + "/constants.pkl") != nullptr) {
    fail_unsupported(kNoOffset, "TorchScript program: save its state_dict() instead");
  }
  const Input& input = *checkpoint.input;
  check_order(input, find(by_name, root + "/byteorder"));

  const ZipEntry& entry = *find(by_name, root + std::string(kPickle));
  const Input content = Input::of_memory(read_whole(input, storage_of(entry), kLongestPickle));
  Cursor cursor(content, 0, content.size(), entry.deflated ? 0 : entry.begin);
  const Pickle pickle = read_pickle(cursor, torch_globals(), checkpoint.budget);
  if (cursor.left() != 0) fail(cursor.offset(), "{} bytes after the pickle", cursor.left());

  std::unordered_map<std::string, std::size_t> numbers;
  add_tensors(
      pickle, key,
      [&](const StorageName& name) {
        const auto [known, is_new] = numbers.try_emplace(std::string(name.key), checkpoint.storages.size());
        if (is_new) {
          const ZipEntry* data = find(by_name, root + "/data/" + known->first);
          if (data == nullptr) fail(name.offset, "no storage '{}'", name.key);
          checkpoint.budget.charge(kStorageBytes + 2 * name.key.size(), name.offset);
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
}

void read_torch_stacked(Checkpoint& checkpoint, const std::string& key) {
  Budget& budget = checkpoint.budget;
  Cursor cursor(*checkpoint.input, 0, checkpoint.input->size());
  read_headers(cursor, budget);
  const Pickle pickle = read_pickle(cursor, torch_globals(), budget);
  const std::uint64_t at = cursor.offset();
  const Pickle keys = read_header(cursor, budget);
  if (keys[keys.root].kind != Kind::list)
    fail(at, "expected a list of storage keys, found a {}", name_of(keys[keys.root].kind));

  const auto names = storage_names(pickle, budget);
  std::unordered_map<std::string_view, std::size_t> numbers;
  for (const ValueId id : keys[keys.root].items) {
    const Value& storage = keys[id];
    const auto name = names.find(storage.text);
    if (storage.kind != Kind::text || name == names.end()) fail(storage.offset, "storage that no tensor uses");
    if (!numbers.try_emplace(name->first, checkpoint.storages.size()).second) {
      fail(storage.offset, "storage '{}' occurs twice", storage.text);
    }
    budget.charge(kStorageBytes + 2 * storage.text.size(), storage.offset);
    checkpoint.storages.push_back(read_storage(cursor, name->second));
  }
  if (cursor.left() != 0) fail(cursor.offset(), "{} bytes after the last storage", cursor.left());

  add_tensors(
      pickle, key,
      [&](const StorageName& name) {
        const auto found = numbers.find(name.key);
        if (found == numbers.end()) fail(name.offset, "no storage '{}'", name.key);
        return found->second;
      },
      checkpoint);
}

}  // namespace cli::importer
