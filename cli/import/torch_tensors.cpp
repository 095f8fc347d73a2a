// SPDX-License-Identifier: Apache-2.0
#include "torch_tensors.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <tuple>
#include <unordered_set>
#include <utility>
#include <vector>

#include "error.hpp"
#include "torch_values.hpp"

namespace cli::importer {
namespace {

// ---- calls that make tensors ---------------------------------------------------------------------------------------------

struct TorchCall {
  std::int64_t function = 0;  // index in torch_globals()
  ValueId arguments = 0;      // a tuple
  std::uint64_t offset = 0;
};

TorchName meaning_of(const TorchCall& call) { return torch_global(call.function).meaning; }

TorchCall call_of(const Value& value) { return {value.integer, value.items.front(), value.offset}; }

[[noreturn]] void fail_class(std::uint64_t offset, const std::string& tensor, std::string_view function) {
  if (function == "torch._utils._rebuild_qtensor") {
    fail_unsupported(offset, "tensor '{}' is quantized ({}): safetensors has no dtype for it", tensor, function);
  }
  fail_unsupported(offset, "tensor '{}' is created by {}: safetensors cannot store it", tensor, function);
}

// Finds the tensor inside nested calls.
class TensorCall {
 public:
  TensorCall(const Pickle& pickle, const std::string& name) : pickle_(pickle), name_(name) {}

  // Returns the innermost call, which creates the tensor itself, without a surrounding parameter or attributes. value:
  // of kind `call`.
  TorchCall bare(const Value& value) const;

 private:
  TorchCall of_parameter(const TorchCall& call) const;
  TorchCall of_type(const TorchCall& call) const;

  const Pickle& pickle_;
  const std::string& name_;
};

// Arguments: a tensor, requires_grad, hooks, attributes. torch 0.3 has at most the first two.
TorchCall TensorCall::of_parameter(const TorchCall& call) const {
  const std::size_t count = pickle_[call.arguments].items.size();
  const bool is_class = meaning_of(call) == TorchName::parameter_class;
  if (is_class ? count != 1 && count != 2 : count != 3 && count != 4) {
    fail(call.offset, "{} has {} arguments", is_class ? "Parameter" : "_rebuild_parameter", count);
  }
  const Value& content = pickle_[pickle_[call.arguments].items.front()];
  if (content.kind == Kind::object) fail_class(call.offset, name_, content.text);
  if (content.kind != Kind::call)
    fail(call.offset, "parameter created from a {}, expected a tensor", name_of(content.kind));
  return call_of(content);
}

// Arguments: a function, the class of its result, its arguments, attributes.
TorchCall TensorCall::of_type(const TorchCall& call) const {
  const std::vector<ValueId>& arguments = pickle_[call.arguments].items;
  if (arguments.size() != 4) fail(call.offset, "_rebuild_from_type_v2 has {} arguments", arguments.size());
  const Value& function = pickle_[arguments[0]];
  const Value& type = pickle_[arguments[1]];
  if (function.kind != Kind::global || type.kind != Kind::global || pickle_[arguments[2]].kind != Kind::tuple) {
    fail(call.offset, "tensor with attributes is created from types {}, {} and {}", name_of(function.kind),
         name_of(type.kind), name_of(pickle_[arguments[2]].kind));
  }
  if (function.integer == kUnknown) fail_class(call.offset, name_, function.text);
  const TorchGlobal known = torch_global(type);
  if (known.meaning == TorchName::unknown) {
    fail_unsupported(call.offset, "tensor '{}' has the class {}: safetensors cannot store it", name_, known.name);
  }
  if (known.meaning != TorchName::tensor_class && known.meaning != TorchName::parameter_class) {
    fail(call.offset, "tensor '{}' has class {}", name_, known.name);
  }
  return {function.integer, arguments[2], call.offset};
}

TorchCall TensorCall::bare(const Value& value) const {
  TorchCall call = call_of(value);
  bool was_parameter = false;
  bool was_typed = false;
  for (;;) {
    switch (meaning_of(call)) {
      case TorchName::rebuild_tensor_v1:
      case TorchName::rebuild_tensor:
      case TorchName::rebuild_tensor_v3: return call;
      case TorchName::rebuild_parameter:
      case TorchName::parameter_class:
        if (was_parameter) fail(call.offset, "parameter created from a parameter");
        was_parameter = true;
        call = of_parameter(call);
        break;
      case TorchName::rebuild_from_type:
        if (was_typed) fail(call.offset, "attributes of a tensor are set twice");
        was_typed = true;
        call = of_type(call);
        break;
      default:
        fail(call.offset, "tensor created by torch's {}, which does not create tensors",
             torch_global(call.function).name);
    }
  }
}

// ---- tensors in nested dictionaries ----------------------------------------------------------------------------------------

constexpr unsigned kDeepestContainer = 64;
constexpr std::uint64_t kMostVisits = 4'000'000;  // because the same value can be reached many times
constexpr std::string_view kStateDict = "state_dict";
// torch writes decimal numbers. A pickle can use one key a million times, and each use hashes or copies it.
constexpr std::size_t kLongestStorageKey = 1024;

class Collector {
 public:
  Collector(const Pickle& pickle, const FindStorage& find, Checkpoint& checkpoint)
      : pickle_(pickle), find_(find), checkpoint_(checkpoint), search_(pickle) {}

  void collect(const std::string& key);

 private:
  ValueId default_root() const;
  void count_elsewhere(ValueId id);
  void visit(ValueId id, const std::string& name, unsigned depth);
  void visit_dict(const Value& value, const std::string& prefix, unsigned depth);
  void visit_call(const Value& value, const std::string& name);
  void visit_object(ValueId id, const std::string& name);
  void add_tensor(const TorchCall& call, const std::string& name);
  std::vector<std::uint64_t> numbers(const Value& value) const;
  TorchGlobal dtype_of(const TorchCall& call, const StorageName& storage) const;

  const Pickle& pickle_;
  const FindStorage& find_;
  Checkpoint& checkpoint_;
  Search search_;
  std::uint64_t visits_ = 0;
  const Value* bad_key_ = nullptr;  // the outermost key on the path that is not a string or integer
};

std::uint64_t count(const Value& value) {
  if (value.kind != Kind::integer) fail(value.offset, "expected a size, found a {}", name_of(value.kind));
  if (value.integer < 0) fail(value.offset, "negative size {}", value.integer);
  return static_cast<std::uint64_t>(value.integer);
}

// ---- traversing the dictionaries ------------------------------------------------------------------------------------------

// Throws unless the value is a dictionary. torch accepts an object here, but without its class the tensors have no
// names.
void expect_dict(const Value& value, const std::string& what) {
  if (value.kind == Kind::dict) return;
  const char* const advice = value.kind == Kind::object ? ": save its state_dict() instead"
                             : what.empty()             ? ": save a dictionary of tensors instead"
                                                        : "";
  fail_unsupported(value.offset, "{}expected a dictionary, found a {}{}", what, words_of(value), advice);
}

ValueId Collector::default_root() const {
  const Value& root = pickle_[pickle_.root];
  expect_dict(root, "");
  ValueId id = pickle_.root;
  for (std::size_t i = 0; i < root.items.size(); i += 2) {
    const Value& key = pickle_[root.items[i]];
    if (key.kind != Kind::text || key.text != kStateDict) continue;
    if (id != pickle_.root) fail(key.offset, "dictionary has the key '{}' twice", kStateDict);
    id = root.items[i + 1];
  }
  return id;
}

void Collector::collect(const std::string& key) {
  const ValueId id = key.empty() ? default_root() : find_value(pickle_, key);
  if (id != pickle_.root) expect_dict(pickle_[id], (key.empty() ? std::string(kStateDict) : key) + ": ");
  visit(id, "", 0);
  if (key.empty() && id != pickle_.root) count_elsewhere(id);
  if (checkpoint_.tensors.empty() && checkpoint_.left_out > 0) {
    fail_unsupported(pickle_[id].offset, "found no tensors, but {}", words_of_left_out(checkpoint_));
  }
}

void Collector::count_elsewhere(ValueId id) {
  Search search(pickle_);
  search.skip(id);
  std::tie(checkpoint_.elsewhere, checkpoint_.first_elsewhere) = search.count(pickle_.root);
}

void Collector::visit(ValueId id, const std::string& name, unsigned depth) {
  const Value& value = pickle_[id];
  if (depth > kDeepestContainer)
    fail(value.offset, "dictionaries and lists are nested deeper than {}", kDeepestContainer);
  if (++visits_ > kMostVisits) fail(value.offset, "more than {} values", kMostVisits);
  checkpoint_.budget.charge(3 * name.size(), value.offset);  // the name, its prefix, and the kept copy
  const std::string prefix = name.empty() ? "" : name + ".";
  if (value.kind == Kind::dict) {
    visit_dict(value, prefix, depth);
  } else if (value.kind == Kind::list || value.kind == Kind::tuple) {
    for (std::size_t i = 0; i < value.items.size(); ++i) visit(value.items[i], prefix + std::to_string(i), depth + 1);
  } else if (value.kind == Kind::call) {
    visit_call(value, name);
  } else if (value.kind == Kind::object) {
    visit_object(id, name);
  } else {
    leave_out(checkpoint_, name, value.kind == Kind::global ? value.text : "");
  }
}

// Keys other than strings and integers are an error only on the path to a tensor. Rejects duplicate keys, for which
// Python keeps the last value.
void Collector::visit_dict(const Value& value, const std::string& prefix, unsigned depth) {
  std::unordered_set<std::string_view> texts;
  std::unordered_set<std::int64_t> integers;
  for (std::size_t i = 0; i < value.items.size(); i += 2) {
    const Value& key = pickle_[value.items[i]];
    const Value* const before = bad_key_;
    if (before == nullptr && !can_be_name(key)) bad_key_ = &key;
    visit(value.items[i + 1], prefix + key_text(key), depth + 1);
    bad_key_ = before;
    const bool is_twice = (key.kind == Kind::text && !texts.insert(key.text).second) ||
                          (key.kind == Kind::integer && !integers.insert(key.integer).second);
    if (is_twice) fail(key.offset, "dictionary has the key '{}' twice", key_text(key));
  }
}

void Collector::visit_call(const Value& value, const std::string& name) {
  if (is_size(value)) return leave_out(checkpoint_, name, "");
  if (bad_key_ != nullptr) {
    fail_unsupported(bad_key_->offset, "the key of a tensor is a {}, expected a string or an integer",
                     words_of(*bad_key_));
  }
  add_tensor(TensorCall(pickle_, name).bare(value), name);
}

// Skips an object. Throws if that would lose tensors.
void Collector::visit_object(ValueId id, const std::string& name) {
  const Value& value = pickle_[id];
  if (makes_tensor(value.text)) fail_class(value.offset, name, value.text);
  if (search_.finds_tensor(id)) {
    fail_unsupported(value.offset,
                     "'{}' is an object of {} and contains tensors: save its state_dict(), or choose a dictionary "
                     "without it with --key",
                     name, value.text);
  }
  leave_out(checkpoint_, name, value.text);
}

// ---- tensors --------------------------------------------------------------------------------------------------------------

std::vector<std::uint64_t> Collector::numbers(const Value& value) const {
  const Value* tuple = &value;
  if (tuple->kind == Kind::call && is_size(*tuple)) {
    const std::vector<ValueId>& arguments = pickle_[tuple->items.front()].items;
    if (arguments.size() != 1) fail(value.offset, "torch.Size has {} arguments, expected 1", arguments.size());
    tuple = &pickle_[arguments.front()];
  }
  if (tuple->kind != Kind::tuple) fail(value.offset, "expected a tuple of sizes, found a {}", name_of(tuple->kind));
  std::vector<std::uint64_t> values;
  values.reserve(tuple->items.size());
  for (const ValueId item : tuple->items) values.push_back(count(pickle_[item]));
  return values;
}

TorchGlobal Collector::dtype_of(const TorchCall& call, const StorageName& storage) const {
  if (meaning_of(call) != TorchName::rebuild_tensor_v3) {
    if (storage.type.meaning == TorchName::untyped) fail(call.offset, "tensor in a storage without a type");
    return storage.type;
  }
  const Value& value = pickle_[pickle_[call.arguments].items[6]];
  const bool is_global = value.kind == Kind::global;
  if (is_global && torch_global(value).meaning == TorchName::unknown) return torch_global(value);
  if (!is_global || torch_global(value).meaning != TorchName::dtype) {
    fail(value.offset, "expected a dtype, found a {}", name_of(value.kind));
  }
  return torch_global(value);
}

// Arguments: storage, index of the first element, sizes, strides (the last in version 1), requires_grad, hooks, in version
// 3 a dtype, and optionally pending operations on the elements.
void Collector::add_tensor(const TorchCall& call, const std::string& name) {
  const std::vector<ValueId>& arguments = pickle_[call.arguments].items;
  const TorchName version = meaning_of(call);
  const std::size_t needed = version == TorchName::rebuild_tensor_v1 ? 4 : version == TorchName::rebuild_tensor ? 6 : 7;
  const std::size_t most = version == TorchName::rebuild_tensor_v1 ? needed : needed + 1;
  if (arguments.size() < needed || arguments.size() > most) {
    fail(call.offset, "tensor '{}' has {} arguments", name, arguments.size());
  }
  if (arguments.size() > needed) {
    const Value& rest = pickle_[arguments.back()];
    const bool is_none = rest.kind == Kind::none || (rest.kind == Kind::dict && rest.items.empty());
    if (!is_none) fail_unsupported(rest.offset, "tensor '{}' has pending operations (conjugate or negate)", name);
  }
  const StorageName storage = read_storage_name(pickle_, pickle_[arguments[0]]);
  const TorchGlobal type = dtype_of(call, storage);
  if (type.dtype == ST_DTYPE_UNKNOWN) {
    fail_unsupported(call.offset, "tensor '{}': safetensors has no dtype for torch's {}", name, type.name);
  }
  Tensor tensor;
  tensor.name = name;
  tensor.dtype = type.dtype;
  tensor.element = type.bytes;
  tensor.storage = find_(storage);
  tensor.shape = numbers(pickle_[arguments[2]]);
  tensor.strides = numbers(pickle_[arguments[3]]);
  place(tensor, count(pickle_[arguments[1]]), checkpoint_.storages[tensor.storage], call.offset);
  if (tensor.dtype == ST_F4 && tensor.shape.empty())
    fail(call.offset, "tensor '{}' is a scalar, but its dtype packs two values", name);
  cli::importer::add_tensor(checkpoint_, std::move(tensor), call.offset);
}

}  // namespace

// A persistent id is ("storage", type, key, device, elements). The older form has the parent storage as a sixth item.
StorageName read_storage_name(const Pickle& pickle, const Value& value) {
  if (value.kind != Kind::persistent) fail(value.offset, "expected a storage, found a {}", name_of(value.kind));
  const Value& tuple = pickle[value.items.front()];
  const std::size_t parts = tuple.kind == Kind::tuple ? tuple.items.size() : 0;
  if (parts != 5 && parts != 6) fail(value.offset, "persistent id does not name a storage");
  const Value& word = pickle[tuple.items[0]];
  const Value& type = pickle[tuple.items[1]];
  const Value& key = pickle[tuple.items[2]];
  if (word.kind != Kind::text || word.text != "storage" || key.kind != Kind::text || type.kind != Kind::global) {
    fail(value.offset, "persistent id does not name a storage");
  }
  if (key.text.size() > kLongestStorageKey) {
    fail(value.offset, "storage key of {} bytes (limit: {})", key.text.size(), kLongestStorageKey);
  }
  const TorchGlobal global = torch_global(type);
  if (global.meaning != TorchName::storage && global.meaning != TorchName::untyped) {
    fail(value.offset, "persistent id names a {}, expected a storage", global.name);
  }
  if (parts == 6 && pickle[tuple.items[5]].kind != Kind::none) {
    fail_unsupported(value.offset, "storage '{}' is part of another storage: save the file with a newer torch",
                     key.text);
  }
  return {key.text, global, count(pickle[tuple.items[4]]), value.offset};
}

std::uint64_t bytes_of(const StorageName& name) {
  if (name.elements > UINT64_MAX / name.type.bytes) {
    fail(name.offset, "storage '{}' has {} elements", name.key, name.elements);
  }
  return name.elements * name.type.bytes;
}

void add_tensors(const Pickle& pickle, const std::string& key, const FindStorage& find, Checkpoint& checkpoint) {
  Collector(pickle, find, checkpoint).collect(key);
  check_names(checkpoint, kUsage);
}

}  // namespace cli::importer
