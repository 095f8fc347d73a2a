// SPDX-License-Identifier: Apache-2.0
#include "torch.hpp"

#include <string>

#include "refusal.hpp"
#include "torch_call.hpp"

namespace cli::legacy {
namespace {

constexpr unsigned kDeepest = 64;
constexpr std::uint64_t kMostVisits = 4'000'000;      // a value may be met by many ways
constexpr std::uint64_t kLongestNames = 100'000'000;  // together: no header can hold more
constexpr std::string_view kStateDict = "state_dict";

class Collector {
 public:
  Collector(const Pickle& pickle, const FindStorage& find, Checkpoint& checkpoint)
      : pickle_(pickle), find_(find), checkpoint_(checkpoint) {}

  void collect();

 private:
  void visit(ValueId id, const std::string& name, unsigned depth);
  void visit_dict(const Value& value, const std::string& prefix, unsigned depth);
  void visit_call(const Value& value, const std::string& name);
  void add_tensor(const TorchCall& call, const std::string& name);
  void leave_out(const std::string& name);
  std::vector<std::uint64_t> numbers(const Value& value) const;
  TorchGlobal dtype_of(const TorchCall& call, const StorageName& storage) const;

  const Pickle& pickle_;
  const FindStorage& find_;
  Checkpoint& checkpoint_;
  std::uint64_t visits_ = 0;
  std::uint64_t name_bytes_ = 0;
  const Value* no_name_ = nullptr;  // a key above, of which no name can be made
};

bool is_name(const Value& key) { return key.kind == Kind::text || key.kind == Kind::integer; }

// Of a key that is no name, words for messages: no tensor gets them.
std::string key_text(const Value& key) {
  if (key.kind == Kind::text) return std::string(key.text);
  if (key.kind == Kind::integer) return std::to_string(key.integer);
  if (key.kind == Kind::list || key.kind == Kind::dict) {
    refuse(key.offset, "has a {} as a key, which Python never writes", name_of(key.kind));
  }
  return std::string("(").append(name_of(key.kind)).append(")");
}

std::string_view words_of(const Value& value) {
  if (value.kind == Kind::big) return "number of more than 64 bits";
  if (value.kind != Kind::call) return name_of(value.kind);
  return torch_global(value.integer).meaning == TorchName::size ? "torch.Size" : "tensor";
}

std::uint64_t count(const Value& value) {
  if (value.kind != Kind::integer) refuse(value.offset, "has a {} where a size is expected", name_of(value.kind));
  if (value.integer < 0) refuse(value.offset, "has the size {}", value.integer);
  return static_cast<std::uint64_t>(value.integer);
}

// ---- the way through the dictionaries -------------------------------------------------------------------------------------

void Collector::collect() {
  const Value* root = &pickle_[pickle_.root];
  ValueId id = pickle_.root;
  if (root->kind != Kind::dict) refuse(root->offset, "holds a {}, where a dictionary is expected", words_of(*root));
  for (std::size_t i = 0; i < root->items.size(); i += 2) {
    const Value& key = pickle_[root->items[i]];
    if (key.kind == Kind::text && key.text == kStateDict) id = root->items[i + 1];
  }
  if (pickle_[id].kind != Kind::dict) refuse(pickle_[id].offset, "has a {} as its state_dict", words_of(pickle_[id]));
  visit(id, "", 0);
  if (checkpoint_.tensors.empty() && checkpoint_.left_out > 0) {
    refuse(root->offset, "holds no tensor, but {} other values, '{}' first", checkpoint_.left_out,
           checkpoint_.first_left_out);
  }
}

void Collector::visit(ValueId id, const std::string& name, unsigned depth) {
  const Value& value = pickle_[id];
  if (depth > kDeepest) refuse(value.offset, "has more than {} dictionaries and lists in each other", kDeepest);
  if (++visits_ > kMostVisits) refuse(value.offset, "has more than {} values", kMostVisits);
  name_bytes_ += name.size();
  if (name_bytes_ > kLongestNames) refuse(value.offset, "has names of more than {} bytes", kLongestNames);
  const std::string prefix = name.empty() ? "" : name + ".";
  if (value.kind == Kind::dict) {
    visit_dict(value, prefix, depth);
  } else if (value.kind == Kind::list || value.kind == Kind::tuple) {
    for (std::size_t i = 0; i < value.items.size(); ++i) visit(value.items[i], prefix + std::to_string(i), depth + 1);
  } else if (value.kind == Kind::call) {
    visit_call(value, name);
  } else {
    leave_out(name);
  }
}

// A dictionary of other things may have other keys: only a tensor needs a name.
void Collector::visit_dict(const Value& value, const std::string& prefix, unsigned depth) {
  for (std::size_t i = 0; i < value.items.size(); i += 2) {
    const Value& key = pickle_[value.items[i]];
    const Value* const before = no_name_;
    if (before == nullptr && !is_name(key)) no_name_ = &key;
    visit(value.items[i + 1], prefix + key_text(key), depth + 1);
    no_name_ = before;
  }
}

void Collector::visit_call(const Value& value, const std::string& name) {
  if (torch_global(value.integer).meaning == TorchName::size) return leave_out(name);
  if (no_name_ != nullptr) {
    refuse(no_name_->offset, "has a tensor under a key that is a {}: names are made of strings and integers",
           words_of(*no_name_));
  }
  add_tensor(tensor_call(pickle_, value), name);
}

void Collector::leave_out(const std::string& name) {
  if (checkpoint_.left_out++ == 0) checkpoint_.first_left_out = name;
}

// ---- one tensor -----------------------------------------------------------------------------------------------------------

std::vector<std::uint64_t> Collector::numbers(const Value& value) const {
  const Value* tuple = &value;
  if (tuple->kind == Kind::call && torch_global(tuple->integer).meaning == TorchName::size) {
    const std::vector<ValueId>& arguments = pickle_[tuple->items.front()].items;
    if (arguments.size() != 1) refuse(value.offset, "torch.Size has {} arguments", arguments.size());
    tuple = &pickle_[arguments.front()];
  }
  if (tuple->kind != Kind::tuple) refuse(value.offset, "has a {} where sizes are expected", name_of(tuple->kind));
  std::vector<std::uint64_t> values;
  values.reserve(tuple->items.size());
  for (const ValueId item : tuple->items) values.push_back(count(pickle_[item]));
  return values;
}

TorchGlobal Collector::dtype_of(const TorchCall& call, const StorageName& storage) const {
  if (meaning_of(call) != TorchName::rebuild_tensor_v3) {
    if (storage.type.meaning == TorchName::untyped) refuse(call.offset, "has a tensor of a storage without a type");
    return storage.type;
  }
  const Value& value = pickle_[pickle_[call.arguments].items[6]];
  if (value.kind != Kind::global || torch_global(value.integer).meaning != TorchName::dtype) {
    refuse(value.offset, "has a {} where a dtype is expected", name_of(value.kind));
  }
  return torch_global(value.integer);
}

// Arguments: storage, number of the first element, size, strides, which is all in version 1; requires_grad and hooks; in
// version 3 a dtype; and then perhaps what else is to be done with the elements.
void Collector::add_tensor(const TorchCall& call, const std::string& name) {
  const std::vector<ValueId>& arguments = pickle_[call.arguments].items;
  const TorchName version = meaning_of(call);
  const std::size_t needed = version == TorchName::rebuild_tensor_v1 ? 4 : version == TorchName::rebuild_tensor ? 6 : 7;
  const std::size_t most = version == TorchName::rebuild_tensor_v1 ? needed : needed + 1;
  if (arguments.size() < needed || arguments.size() > most) {
    refuse(call.offset, "tensor '{}' has {} arguments", name, arguments.size());
  }
  if (arguments.size() > needed) {
    const Value& rest = pickle_[arguments.back()];
    const bool is_none = rest.kind == Kind::none || (rest.kind == Kind::dict && rest.items.empty());
    if (!is_none) refuse(rest.offset, "tensor '{}' is to be conjugated or negated", name);
  }
  const StorageName storage = read_storage_name(pickle_, pickle_[arguments[0]]);
  const TorchGlobal type = dtype_of(call, storage);
  if (type.dtype == ST_DTYPE_UNKNOWN) {
    refuse_type(call.offset, "tensor '{}': safetensors has no dtype for torch's {}", name, type.name);
  }
  if (checkpoint_.tensors.size() == kMostTensors) refuse(call.offset, "has more than {} tensors", kMostTensors);
  Tensor tensor;
  tensor.name = name;
  tensor.dtype = type.dtype;
  tensor.element = type.bytes;
  tensor.storage = find_(storage);
  tensor.shape = numbers(pickle_[arguments[2]]);
  tensor.strides = numbers(pickle_[arguments[3]]);
  place(tensor, count(pickle_[arguments[1]]), checkpoint_.storages[tensor.storage], call.offset);
  if (tensor.dtype == ST_F4 && tensor.shape.empty())
    refuse(call.offset, "tensor '{}' has two values and no size", name);
  checkpoint_.tensors.push_back(std::move(tensor));
}

}  // namespace

// ("storage", type, key, where it was, elements), and in the older form what it is a part of.
StorageName read_storage_name(const Pickle& pickle, const Value& value) {
  if (value.kind != Kind::persistent) refuse(value.offset, "has a {} where a storage is expected", name_of(value.kind));
  const Value& tuple = pickle[value.items.front()];
  const std::size_t parts = tuple.kind == Kind::tuple ? tuple.items.size() : 0;
  if (parts != 5 && parts != 6) refuse(value.offset, "has a persistent id that names no storage");
  const Value& word = pickle[tuple.items[0]];
  const Value& type = pickle[tuple.items[1]];
  const Value& key = pickle[tuple.items[2]];
  if (word.kind != Kind::text || word.text != "storage" || key.kind != Kind::text || type.kind != Kind::global) {
    refuse(value.offset, "has a persistent id that names no storage");
  }
  const TorchGlobal global = torch_global(type.integer);
  if (global.meaning != TorchName::storage && global.meaning != TorchName::untyped) {
    refuse(value.offset, "has a persistent id of a {}, which is no storage", global.name);
  }
  if (parts == 6 && pickle[tuple.items[5]].kind != Kind::none) {
    refuse(value.offset, "has a storage '{}' that is a part of another: save it with a newer torch", key.text);
  }
  return {key.text, global, count(pickle[tuple.items[4]]), value.offset};
}

std::uint64_t bytes_of(const StorageName& name) {
  if (name.elements > UINT64_MAX / name.type.bytes) {
    refuse(name.offset, "storage '{}' has {} elements", name.key, name.elements);
  }
  return name.elements * name.type.bytes;
}

void add_tensors(const Pickle& pickle, const FindStorage& find, Checkpoint& checkpoint) {
  Collector(pickle, find, checkpoint).collect();
}

}  // namespace cli::legacy
