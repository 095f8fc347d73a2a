// What torch.save wrote before 1.6: pickles of a magic number, a version, the machine, the state dict and the keys of
// the storages, and then the storages, each behind its number of elements.
// SPDX-License-Identifier: Apache-2.0
#include <unordered_map>

#include "refusal.hpp"
#include "torch.hpp"

namespace cli::legacy {
namespace {

constexpr std::string_view kMagic = "\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19";
constexpr std::int64_t kVersion = 1001;

// The headers use no names at all.
Pickle read_header(Cursor& cursor) { return read_pickle(cursor, {}); }

void read_headers(Cursor& cursor) {
  const Pickle magic = read_header(cursor);
  const Value& number = magic[magic.root];
  if (number.kind != Kind::big || number.text != kMagic) refuse(0, "is a pickle, but not one of torch.save");
  const std::uint64_t at = cursor.offset();
  const Pickle version = read_header(cursor);
  if (version[version.root].kind != Kind::integer || version[version.root].integer != kVersion) {
    refuse(at, "is of a version of torch.save that is not {}", kVersion);
  }
  const Pickle machine = read_header(cursor);
  const std::vector<ValueId>& facts = machine[machine.root].items;
  for (std::size_t i = 0; machine[machine.root].kind == Kind::dict && i < facts.size(); i += 2) {
    if (machine[facts[i]].text != "little_endian") continue;
    const Value& fact = machine[facts[i + 1]];
    if (fact.kind != Kind::boolean || fact.integer != 1) refuse(fact.offset, "has numbers in the byte order 'big'");
  }
}

// What the pickle says of each storage: without it the elements of a storage cannot be told from the next one.
std::unordered_map<std::string_view, StorageName> storage_names(const Pickle& pickle) {
  std::unordered_map<std::string_view, StorageName> names;
  for (const Value& value : pickle.values) {
    if (value.kind != Kind::persistent) continue;
    const StorageName name = read_storage_name(pickle, value);
    const auto [known, is_new] = names.try_emplace(name.key, name);
    if (!is_new && bytes_of(known->second) != bytes_of(name)) {
      refuse(name.offset, "storage '{}' has {} bytes and {} bytes", name.key, bytes_of(known->second), bytes_of(name));
    }
  }
  return names;
}

// Returns the elements of a storage, which are a range of the file, and leaves the cursor behind it.
Storage read_storage(Cursor& cursor, const StorageName& name) {
  const std::uint64_t at = cursor.offset();
  const std::uint64_t elements = cursor.u64();
  const std::uint64_t bytes = bytes_of(name);
  if (elements != name.elements) {
    refuse(at, "storage '{}' has {} elements, {} are announced", name.key, elements, name.elements);
  }
  if (bytes > cursor.left()) {
    refuse(at, "storage '{}' has {} bytes, {} are left: the file is not complete", name.key, bytes, cursor.left());
  }
  Storage storage{std::string(name.key), cursor.position(), bytes, bytes, false, {}};
  cursor.skip(bytes);
  return storage;
}

}  // namespace

Checkpoint read_torch_stacked(std::unique_ptr<const Input> input) {
  Cursor cursor(*input, 0, input->size());
  read_headers(cursor);
  const Pickle pickle = read_pickle(cursor, torch_globals());
  const std::uint64_t at = cursor.offset();
  const Pickle keys = read_header(cursor);
  if (keys[keys.root].kind != Kind::list) refuse(at, "has a {} where keys are expected", name_of(keys[keys.root].kind));

  const auto names = storage_names(pickle);
  std::unordered_map<std::string_view, std::size_t> numbers;
  Checkpoint checkpoint;
  for (const ValueId id : keys[keys.root].items) {
    const Value& key = keys[id];
    const auto name = names.find(key.text);
    if (key.kind != Kind::text || name == names.end()) refuse(key.offset, "has a storage that no tensor uses");
    if (!numbers.try_emplace(name->first, checkpoint.storages.size()).second) {
      refuse(key.offset, "has the storage '{}' twice", key.text);
    }
    checkpoint.storages.push_back(read_storage(cursor, name->second));
  }
  if (cursor.left() != 0) refuse(cursor.offset(), "has {} bytes behind the last storage", cursor.left());

  add_tensors(
      pickle,
      [&](const StorageName& name) {
        const auto found = numbers.find(name.key);
        if (found == numbers.end()) refuse(name.offset, "has no storage '{}'", name.key);
        return found->second;
      },
      checkpoint);
  checkpoint.input = std::move(input);
  return checkpoint;
}

}  // namespace cli::legacy
