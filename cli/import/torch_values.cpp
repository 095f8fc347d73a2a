// SPDX-License-Identifier: Apache-2.0
#include "torch_values.hpp"

#include <algorithm>
#include <string_view>

#include "error.hpp"
#include "torch_names.hpp"

namespace cli::importer {
namespace {

// Limit for paths in messages.
constexpr std::size_t kLongestPath = 1000;
constexpr std::size_t kLongestKey = 100;

// Returns whether a value is a storage or any kind of tensor, even one that safetensors cannot store.
bool is_tensor(const Pickle& pickle, const Value& value) {
  switch (value.kind) {
    case Kind::call: return !is_size(value);
    case Kind::object: return makes_tensor(value.text);
    case Kind::persistent: return is_storage(pickle, value);
    default: return false;
  }
}

// Does not copy a string, because a pickle can use a long one as key many times.
bool is_key(const Value& item, std::string_view key) {
  return item.kind == Kind::text ? item.text == key : item.kind == Kind::integer && std::to_string(item.integer) == key;
}

// Rejects duplicate keys, for which Python keeps the last value.
const ValueId* find_item(const Pickle& pickle, const Value& value, std::string_view key) {
  const bool is_list = value.kind == Kind::list || value.kind == Kind::tuple;
  const ValueId* found = nullptr;
  for (std::size_t i = 0; is_list && i < value.items.size(); ++i) {
    if (std::to_string(i) == key) return &value.items[i];
  }
  for (std::size_t i = 0; value.kind == Kind::dict && i < value.items.size(); i += 2) {
    const Value& item = pickle[value.items[i]];
    if (!is_key(item, key)) continue;
    if (found != nullptr) fail(item.offset, "dictionary has the key '{}' twice", key);
    found = &value.items[i + 1];
  }
  return found;
}

// Returns the dictionaries among the items, for the message.
std::string keys_of(const Pickle& pickle, const Value& value) {
  constexpr std::size_t kMost = 8;
  std::string keys;
  std::size_t n = 0;
  for (std::size_t i = 0; value.kind == Kind::dict && i < value.items.size(); i += 2) {
    const Value& key = pickle[value.items[i]];
    if (pickle[value.items[i + 1]].kind != Kind::dict || !can_be_name(key)) continue;
    if (n++ == kMost) return keys + ", ...";
    keys += (keys.empty() ? "; there are: " : ", ") + key_text(key).substr(0, kLongestKey);
  }
  return keys;
}

}  // namespace

// ---- what values are ----------------------------------------------------------------------------------------------------

bool is_size(const Value& value) { return torch_global(value).meaning == TorchName::size; }

bool is_storage(const Pickle& pickle, const Value& value) {
  const Value& tuple = pickle[value.items.front()];
  if (tuple.kind != Kind::tuple || tuple.items.empty()) return true;  // read_storage_name() will report the error
  const Value& word = pickle[tuple.items.front()];
  return word.kind != Kind::text || word.text != "module";
}

bool can_be_name(const Value& key) { return key.kind == Kind::text || key.kind == Kind::integer; }

std::string key_text(const Value& key) {
  if (key.kind == Kind::text) return std::string(key.text);
  if (key.kind == Kind::integer) return std::to_string(key.integer);
  if (key.kind == Kind::list || key.kind == Kind::dict) {
    fail(key.offset, "dictionary key is a {}, which Python never writes", name_of(key.kind));
  }
  return std::string("(").append(name_of(key.kind)).append(")");
}

std::string words_of(const Value& value) {
  if (value.kind == Kind::big) return "number of more than 64 bits";
  if (value.kind == Kind::object) return "Python object (" + std::string(value.text) + ")";
  if (value.kind != Kind::call) return name_of(value.kind);
  return is_size(value) ? "torch.Size" : "tensor";
}

// ---- where values are ---------------------------------------------------------------------------------------------------

// Keys may contain dots, so at each level the longest matching key wins. Depth is bounded by the number of dots in
// `key`.
ValueId find_value(const Pickle& pickle, const std::string& key) {
  ValueId id = pickle.root;
  std::string_view rest = key;
  while (!rest.empty()) {
    const Value& value = pickle[id];
    std::size_t end = rest.size();
    const ValueId* found = find_item(pickle, value, rest);
    while (found == nullptr && end != 0) {
      end = rest.rfind('.', end - 1);
      if (end == rest.npos) break;
      found = find_item(pickle, value, rest.substr(0, end));
    }
    if (found == nullptr) {
      fail_unsupported(value.offset, "--key: no dictionary '{}'{}", key, keys_of(pickle, value));
    }
    id = *found;
    rest.remove_prefix(std::min(rest.size(), end + 1));
  }
  return id;
}

// Calls `take` for each tensor in file order. If `take` returns false, stops and returns true.
bool Search::walk(ValueId root, const std::function<bool(ValueId)>& take) {
  std::vector<std::pair<ValueId, ValueId>> open{{root, root}};  // values and their parents
  while (!open.empty()) {
    const auto [id, parent] = open.back();
    open.pop_back();
    if (seen_[id]) continue;
    seen_[id] = true;
    if (!parents_.empty()) parents_[id] = parent;
    const Value& value = pickle_[id];
    if (is_tensor(pickle_, value)) {
      if (!take(id)) return true;
      continue;
    }
    for (auto item = value.items.rbegin(); item != value.items.rend(); ++item) open.emplace_back(*item, id);
  }
  return false;
}

std::pair<std::uint64_t, std::string> Search::count(ValueId id) {
  parents_.assign(pickle_.values.size(), id);
  std::uint64_t tensors = 0;
  std::string first;
  walk(id, [&](ValueId tensor) {
    if (tensors++ == 0) first = name_of(tensor);
    return true;
  });
  return {tensors, first};
}

std::string Search::name_of(ValueId id) const {
  std::string name;
  for (; parents_[id] != id; id = parents_[id]) {
    const Value& parent = pickle_[parents_[id]];
    const auto index =
        static_cast<std::size_t>(std::find(parent.items.begin(), parent.items.end(), id) - parent.items.begin());
    const bool has_key = parent.kind == Kind::dict && index % 2 == 1 && can_be_name(pickle_[parent.items[index - 1]]);
    std::string part = has_key ? key_text(pickle_[parent.items[index - 1]]) : std::to_string(index);
    if (parent.kind == Kind::object) part = "(" + std::string(parent.text) + ")";
    if (name.size() + part.size() > kLongestPath) return "..." + name;
    if (!name.empty()) part += ".";
    name.insert(0, part);
  }
  return name;
}

}  // namespace cli::importer
