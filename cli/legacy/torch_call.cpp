// SPDX-License-Identifier: Apache-2.0
#include "torch_call.hpp"

#include <cstddef>
#include <vector>

#include "refusal.hpp"

namespace cli::legacy {
namespace {

TorchCall call_of(const Value& value) { return {value.integer, value.items.front(), value.offset}; }

// Arguments: a tensor, requires_grad, hooks, attributes. What torch 0.3 calls has the first two at most.
TorchCall parameter_content(const Pickle& pickle, const TorchCall& call) {
  const std::size_t count = pickle[call.arguments].items.size();
  const bool is_class = meaning_of(call) == TorchName::parameter_class;
  if (is_class ? count != 1 && count != 2 : count != 3 && count != 4) {
    refuse(call.offset, "{} has {} arguments", is_class ? "Parameter" : "_rebuild_parameter", count);
  }
  const Value& content = pickle[pickle[call.arguments].items.front()];
  if (content.kind != Kind::call) refuse(call.offset, "has a parameter made of a {}", name_of(content.kind));
  return call_of(content);
}

// Arguments: a function, the class of what it gives, its arguments, attributes.
TorchCall typed_content(const Pickle& pickle, const TorchCall& call) {
  const std::vector<ValueId>& arguments = pickle[call.arguments].items;
  if (arguments.size() != 4) refuse(call.offset, "_rebuild_from_type_v2 has {} arguments", arguments.size());
  const Value& function = pickle[arguments[0]];
  const Value& type = pickle[arguments[1]];
  if (function.kind != Kind::global || type.kind != Kind::global || pickle[arguments[2]].kind != Kind::tuple) {
    refuse(call.offset, "has a tensor with attributes that is made of a {}, a {} and a {}", name_of(function.kind),
           name_of(type.kind), name_of(pickle[arguments[2]].kind));
  }
  const TorchName meaning = torch_global(type.integer).meaning;
  if (meaning != TorchName::tensor_class && meaning != TorchName::parameter_class) {
    refuse(call.offset, "has a tensor of the class {}", torch_global(type.integer).name);
  }
  return {function.integer, arguments[2], call.offset};
}

}  // namespace

TorchName meaning_of(const TorchCall& call) { return torch_global(call.function).meaning; }

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
        if (was_parameter) refuse(call.offset, "has a parameter made of a parameter");
        was_parameter = true;
        call = parameter_content(pickle, call);
        break;
      case TorchName::rebuild_from_type:
        if (was_typed) refuse(call.offset, "has a tensor whose attributes are set twice");
        was_typed = true;
        call = typed_content(pickle, call);
        break;
      default: refuse(call.offset, "has a tensor made by torch's {}", torch_global(call.function).name);
    }
  }
}

}  // namespace cli::legacy
