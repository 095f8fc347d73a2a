// SPDX-License-Identifier: Apache-2.0
#include "torch_tensors.hpp"

#include <array>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "error.hpp"

namespace cli::importer {
namespace {

// ---- names -----------------------------------------------------------------------------------------------------------------

struct Entry {
  Global global;
  TorchName meaning;
  st_dtype dtype = ST_DTYPE_UNKNOWN;
  unsigned bytes = 0;
};

constexpr Entry torch_function(std::string_view module, std::string_view name, TorchName meaning) {
  return {{module, name, Role::function}, meaning};
}
constexpr Entry torch_storage(std::string_view name, st_dtype dtype, unsigned bytes) {
  return {{"torch", name, Role::constant}, TorchName::storage, dtype, bytes};
}
constexpr Entry torch_dtype(std::string_view name, st_dtype dtype, unsigned bytes) {
  return {{"torch", name, Role::constant}, TorchName::dtype, dtype, bytes};
}

// Types without a dtype are listed for the error message. An x2 type has two elements per byte.
constexpr std::array kEntries{
    Entry{{"collections", "OrderedDict", Role::dict}, TorchName::ordered_dict},
    torch_function("torch._utils", "_rebuild_tensor", TorchName::rebuild_tensor_v1),  // torch 0.3
    torch_function("torch._utils", "_rebuild_tensor_v2", TorchName::rebuild_tensor),
    torch_function("torch._utils", "_rebuild_tensor_v3", TorchName::rebuild_tensor_v3),
    torch_function("torch._utils", "_rebuild_parameter", TorchName::rebuild_parameter),
    torch_function("torch._utils", "_rebuild_parameter_with_state", TorchName::rebuild_parameter),
    torch_function("torch._tensor", "_rebuild_from_type", TorchName::rebuild_from_type),
    torch_function("torch._tensor", "_rebuild_from_type_v2", TorchName::rebuild_from_type),
    Entry{{"torch", "Tensor", Role::constant}, TorchName::tensor_class},
    Entry{{"torch.nn.parameter", "Parameter", Role::object}, TorchName::parameter_class},  // torch 0.3 calls it
    torch_function("torch", "Size", TorchName::size),
    Entry{{"torch.storage", "UntypedStorage", Role::constant}, TorchName::untyped, ST_U8, 1},
    torch_storage("DoubleStorage", ST_F64, 8),
    torch_storage("FloatStorage", ST_F32, 4),
    torch_storage("HalfStorage", ST_F16, 2),
    torch_storage("BFloat16Storage", ST_BF16, 2),
    torch_storage("LongStorage", ST_I64, 8),
    torch_storage("IntStorage", ST_I32, 4),
    torch_storage("ShortStorage", ST_I16, 2),
    torch_storage("CharStorage", ST_I8, 1),
    torch_storage("ByteStorage", ST_U8, 1),
    torch_storage("BoolStorage", ST_BOOL, 1),
    torch_storage("ComplexFloatStorage", ST_C64, 8),
    torch_storage("ComplexDoubleStorage", ST_DTYPE_UNKNOWN, 16),
    torch_storage("QInt32Storage", ST_DTYPE_UNKNOWN, 4),
    torch_storage("QInt8Storage", ST_DTYPE_UNKNOWN, 1),
    torch_storage("QUInt8Storage", ST_DTYPE_UNKNOWN, 1),
    torch_dtype("float64", ST_F64, 8),
    torch_dtype("float32", ST_F32, 4),
    torch_dtype("float16", ST_F16, 2),
    torch_dtype("bfloat16", ST_BF16, 2),
    torch_dtype("int64", ST_I64, 8),
    torch_dtype("int32", ST_I32, 4),
    torch_dtype("int16", ST_I16, 2),
    torch_dtype("int8", ST_I8, 1),
    torch_dtype("uint64", ST_U64, 8),
    torch_dtype("uint32", ST_U32, 4),
    torch_dtype("uint16", ST_U16, 2),
    torch_dtype("uint8", ST_U8, 1),
    torch_dtype("bool", ST_BOOL, 1),
    torch_dtype("float8_e4m3fn", ST_F8_E4M3, 1),
    torch_dtype("float8_e5m2", ST_F8_E5M2, 1),
    torch_dtype("float8_e8m0fnu", ST_F8_E8M0, 1),
    torch_dtype("float8_e4m3fnuz", ST_F8_E4M3FNUZ, 1),
    torch_dtype("float8_e5m2fnuz", ST_F8_E5M2FNUZ, 1),
    torch_dtype("float4_e2m1fn_x2", ST_F4, 1),
    torch_dtype("complex64", ST_C64, 8),
    torch_dtype("complex128", ST_DTYPE_UNKNOWN, 16),
    torch_dtype("complex32", ST_DTYPE_UNKNOWN, 4),
    torch_dtype("qint32", ST_DTYPE_UNKNOWN, 4),
    torch_dtype("qint8", ST_DTYPE_UNKNOWN, 1),
    torch_dtype("quint8", ST_DTYPE_UNKNOWN, 1),
};

constexpr auto kGlobals = [] {
  std::array<Global, kEntries.size()> globals{};
  for (std::size_t i = 0; i < globals.size(); ++i) globals[i] = kEntries[i].global;
  return globals;
}();

// number: the `integer` of a value of kind `global` or `call`.
TorchGlobal torch_global(std::int64_t number) {
  const Entry& entry = kEntries[static_cast<std::size_t>(number)];
  return {entry.meaning, entry.global.name, entry.dtype, entry.bytes};
}

// ---- calls that make tensors ---------------------------------------------------------------------------------------------

struct TorchCall {
  std::int64_t function = 0;  // index in torch_globals()
  ValueId arguments = 0;      // a tuple
  std::uint64_t offset = 0;
};

TorchName meaning_of(const TorchCall& call) { return torch_global(call.function).meaning; }

TorchCall call_of(const Value& value) { return {value.integer, value.items.front(), value.offset}; }

// Arguments: a tensor, requires_grad, hooks, attributes. torch 0.3 has at most the first two.
TorchCall parameter_content(const Pickle& pickle, const TorchCall& call) {
  const std::size_t count = pickle[call.arguments].items.size();
  const bool is_class = meaning_of(call) == TorchName::parameter_class;
  if (is_class ? count != 1 && count != 2 : count != 3 && count != 4) {
    fail(call.offset, "{} has {} arguments", is_class ? "Parameter" : "_rebuild_parameter", count);
  }
  const Value& content = pickle[pickle[call.arguments].items.front()];
  if (content.kind != Kind::call) fail(call.offset, "parameter made of a {}, expected a tensor", name_of(content.kind));
  return call_of(content);
}

// Arguments: a function, the class of its result, its arguments, attributes.
TorchCall typed_content(const Pickle& pickle, const TorchCall& call) {
  const std::vector<ValueId>& arguments = pickle[call.arguments].items;
  if (arguments.size() != 4) fail(call.offset, "_rebuild_from_type_v2 has {} arguments", arguments.size());
  const Value& function = pickle[arguments[0]];
  const Value& type = pickle[arguments[1]];
  if (function.kind != Kind::global || type.kind != Kind::global || pickle[arguments[2]].kind != Kind::tuple) {
    fail(call.offset, "tensor with attributes is made of types {}, {} and {}", name_of(function.kind),
         name_of(type.kind), name_of(pickle[arguments[2]].kind));
  }
  const TorchName meaning = torch_global(type.integer).meaning;
  if (meaning != TorchName::tensor_class && meaning != TorchName::parameter_class) {
    fail(call.offset, "tensor has class {}", torch_global(type.integer).name);
  }
  return {function.integer, arguments[2], call.offset};
}

// Returns the call that makes the bare tensor, without the parameter and the attributes around it. value: of kind `call`.
TorchCall tensor_call(const Pickle& pickle, const Value& value) {
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
        if (was_parameter) fail(call.offset, "parameter made of a parameter");
        was_parameter = true;
        call = parameter_content(pickle, call);
        break;
      case TorchName::rebuild_from_type:
        if (was_typed) fail(call.offset, "attributes of a tensor are set twice");
        was_typed = true;
        call = typed_content(pickle, call);
        break;
      default:
        fail(call.offset, "tensor made by torch's {}, which does not make tensors", torch_global(call.function).name);
    }
  }
}

// ---- tensors in nested dictionaries ----------------------------------------------------------------------------------------

constexpr unsigned kDeepest = 64;
constexpr std::uint64_t kMostVisits = 4'000'000;      // the same value can be reached many times
constexpr std::uint64_t kLongestNames = 100'000'000;  // in total: no header has room for more
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
  const Value* bad_key_ = nullptr;  // the outermost key on the path that is not a string or integer
};

bool can_be_name(const Value& key) { return key.kind == Kind::text || key.kind == Kind::integer; }

// Returns the name of a key. For a key that is not a string or integer, returns a description for messages.
std::string key_text(const Value& key) {
  if (key.kind == Kind::text) return std::string(key.text);
  if (key.kind == Kind::integer) return std::to_string(key.integer);
  if (key.kind == Kind::list || key.kind == Kind::dict) {
    fail(key.offset, "dictionary key is a {}, which Python never writes", name_of(key.kind));
  }
  return std::string("(").append(name_of(key.kind)).append(")");
}

std::string_view words_of(const Value& value) {
  if (value.kind == Kind::big) return "number of more than 64 bits";
  if (value.kind != Kind::call) return name_of(value.kind);
  return torch_global(value.integer).meaning == TorchName::size ? "torch.Size" : "tensor";
}

std::uint64_t count(const Value& value) {
  if (value.kind != Kind::integer) fail(value.offset, "expected a size, found a {}", name_of(value.kind));
  if (value.integer < 0) fail(value.offset, "negative size {}", value.integer);
  return static_cast<std::uint64_t>(value.integer);
}

// ---- traversing the dictionaries ------------------------------------------------------------------------------------------

void Collector::collect() {
  const Value* root = &pickle_[pickle_.root];
  ValueId id = pickle_.root;
  if (root->kind != Kind::dict) fail(root->offset, "expected a dictionary, found a {}", words_of(*root));
  for (std::size_t i = 0; i < root->items.size(); i += 2) {
    const Value& key = pickle_[root->items[i]];
    if (key.kind != Kind::text || key.text != kStateDict) continue;
    if (id != pickle_.root) fail(key.offset, "dictionary has the key '{}' twice", kStateDict);
    id = root->items[i + 1];
  }
  if (pickle_[id].kind != Kind::dict)
    fail(pickle_[id].offset, "state_dict is a {}, expected a dictionary", words_of(pickle_[id]));
  visit(id, "", 0);
  if (checkpoint_.tensors.empty() && checkpoint_.left_out > 0) {
    fail(root->offset, "found no tensors, but {} other values, the first is '{}'", checkpoint_.left_out,
         checkpoint_.first_left_out);
  }
}

void Collector::visit(ValueId id, const std::string& name, unsigned depth) {
  const Value& value = pickle_[id];
  if (depth > kDeepest) fail(value.offset, "dictionaries and lists are nested deeper than {}", kDeepest);
  if (++visits_ > kMostVisits) fail(value.offset, "more than {} values", kMostVisits);
  name_bytes_ += name.size();
  if (name_bytes_ > kLongestNames) fail(value.offset, "names have more than {} bytes in total", kLongestNames);
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

// Other keys are an error only on the path to a tensor. Rejects a key that is set twice: Python keeps its last value.
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
  if (torch_global(value.integer).meaning == TorchName::size) return leave_out(name);
  if (bad_key_ != nullptr) {
    fail(bad_key_->offset, "the key of a tensor is a {}, expected a string or an integer", words_of(*bad_key_));
  }
  add_tensor(tensor_call(pickle_, value), name);
}

void Collector::leave_out(const std::string& name) {
  if (checkpoint_.left_out++ == 0) checkpoint_.first_left_out = name;
}

// ---- tensors --------------------------------------------------------------------------------------------------------------

std::vector<std::uint64_t> Collector::numbers(const Value& value) const {
  const Value* tuple = &value;
  if (tuple->kind == Kind::call && torch_global(tuple->integer).meaning == TorchName::size) {
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
  if (value.kind != Kind::global || torch_global(value.integer).meaning != TorchName::dtype) {
    fail(value.offset, "expected a dtype, found a {}", name_of(value.kind));
  }
  return torch_global(value.integer);
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
    if (!is_none) fail(rest.offset, "tensor '{}' has pending operations (conjugate or negate)", name);
  }
  const StorageName storage = read_storage_name(pickle_, pickle_[arguments[0]]);
  const TorchGlobal type = dtype_of(call, storage);
  if (type.dtype == ST_DTYPE_UNKNOWN) {
    fail_unsupported(call.offset, "tensor '{}': safetensors has no dtype for torch's {}", name, type.name);
  }
  if (checkpoint_.tensors.size() == kMostTensors) fail(call.offset, "more than {} tensors", kMostTensors);
  Tensor tensor;
  tensor.name = name;
  tensor.dtype = type.dtype;
  tensor.element = type.bytes;
  tensor.storage = find_(storage);
  tensor.shape = numbers(pickle_[arguments[2]]);
  tensor.strides = numbers(pickle_[arguments[3]]);
  place(tensor, count(pickle_[arguments[1]]), checkpoint_.storages[tensor.storage], call.offset);
  if (tensor.dtype == ST_F4 && tensor.shape.empty())
    fail(call.offset, "tensor '{}' is a scalar of two packed values", name);
  checkpoint_.tensors.push_back(std::move(tensor));
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
  const TorchGlobal global = torch_global(type.integer);
  if (global.meaning != TorchName::storage && global.meaning != TorchName::untyped) {
    fail(value.offset, "persistent id names a {}, expected a storage", global.name);
  }
  if (parts == 6 && pickle[tuple.items[5]].kind != Kind::none) {
    fail(value.offset, "storage '{}' is a part of another storage: save the file with a newer torch", key.text);
  }
  return {key.text, global, count(pickle[tuple.items[4]]), value.offset};
}

std::uint64_t bytes_of(const StorageName& name) {
  if (name.elements > UINT64_MAX / name.type.bytes) {
    fail(name.offset, "storage '{}' has {} elements", name.key, name.elements);
  }
  return name.elements * name.type.bytes;
}

std::span<const Global> torch_globals() { return kGlobals; }

void add_tensors(const Pickle& pickle, const FindStorage& find, Checkpoint& checkpoint) {
  Collector(pickle, find, checkpoint).collect();
}

}  // namespace cli::importer
