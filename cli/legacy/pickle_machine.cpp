// SPDX-License-Identifier: Apache-2.0
#include "pickle_machine.hpp"

#include <algorithm>
#include <charconv>
#include <limits>
#include <string>
#include <system_error>
#include <utility>

#include "refusal.hpp"

namespace cli::legacy {
namespace {

constexpr ValueId kUnset = std::numeric_limits<ValueId>::max();
constexpr std::size_t kMostMarks = 10'000;  // Python sets one for each container that it is in, and those are few
constexpr std::size_t kMostDigits = 100;    // which would take time in proportion to their square

// Two's complement, as LONG1 has it.
std::string bytes_of_decimal(std::string_view text) {
  const bool negative = text.starts_with('-');
  std::string bytes;
  for (const char digit : text.substr(negative ? 1 : 0)) {
    unsigned carry = static_cast<unsigned>(digit - '0');
    for (char& byte : bytes) {
      carry += 10U * static_cast<unsigned char>(byte);
      byte = static_cast<char>(carry & 0xFF);
      carry >>= 8;
    }
    if (carry != 0) bytes.push_back(static_cast<char>(carry));
  }
  if (static_cast<unsigned char>(bytes.back()) > 0x7F) bytes.push_back('\0');
  unsigned carry = 1;
  for (char& byte : bytes) {
    if (!negative) break;
    carry += static_cast<unsigned char>(~byte);
    byte = static_cast<char>(carry & 0xFF);
    carry >>= 8;
  }
  return bytes;
}

}  // namespace

// ---- values and the stack -------------------------------------------------------------------------------------------------

ValueId Machine::add(Kind kind, std::int64_t integer, std::vector<ValueId> items) {
  if (pickle_.values.size() == kMostValues) refuse(opcode_, "pickle makes more than {} values", kMostValues);
  pickle_.values.push_back({kind, opcode_, integer, {}, std::move(items)});
  return static_cast<ValueId>(pickle_.values.size() - 1);
}

void Machine::push_text(Kind kind, std::string text) {
  const std::string& kept = pickle_.texts.emplace_back(std::move(text));
  const ValueId id = add(kind);
  pickle_.values[id].text = kept;
  push(id);
}

void Machine::push_long(std::uint64_t bytes) {
  if (bytes > sizeof(std::int64_t)) return push_text(Kind::big, bytes);
  std::uint64_t value = 0;
  for (unsigned i = 0; i < bytes; ++i) value |= std::uint64_t{cursor_.u8()} << (8 * i);
  const auto unused = static_cast<unsigned>(64 - 8 * bytes);
  push_number(bytes == 0 ? 0 : static_cast<std::int64_t>(value << unused) >> unused);
}

void Machine::push_int() {
  const std::string text = cursor_.line();
  if (text == "00" || text == "01") return push(add(Kind::boolean, text == "01" ? 1 : 0));
  push_decimal(text);
}

void Machine::push_long_int() {
  std::string text = cursor_.line();
  if (text.ends_with('L')) text.pop_back();
  push_decimal(text);
}

// A leading 0 stands for a base in Python: of INT 010 its reader in C makes 8, and the one in Python an error.
void Machine::push_decimal(std::string_view text) {
  const std::string_view digits = text.substr(text.starts_with('-') ? 1 : 0);
  const bool has_base = digits.size() > 1 && digits.front() == '0';
  std::int64_t value = 0;
  const char* const behind = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), behind, value);
  if (end != behind || error == std::errc::invalid_argument || has_base || text.size() > kMostDigits) {
    refuse(opcode_, "pickle has the number '{}'", text);
  }
  error == std::errc{} ? push_number(value) : push_text(Kind::big, bytes_of_decimal(text));
}

void Machine::push(ValueId id) {
  if (stack_.size() == kMostValues) refuse(opcode_, "pickle has more than {} values on its stack", kMostValues);
  stack_.push_back(id);
}

void Machine::mark() {
  if (marks_.size() == kMostMarks) refuse(opcode_, "pickle sets more than {} marks", kMostMarks);
  marks_.push_back(stack_.size());
}

ValueId Machine::pop() {
  const ValueId id = top();
  stack_.pop_back();
  return id;
}

ValueId Machine::top() const {
  if (stack_.size() <= floor()) refuse(opcode_, "pickle takes a value from an empty stack");
  return stack_.back();
}

std::vector<ValueId> Machine::pop_to_mark() {
  if (marks_.empty()) refuse(opcode_, "pickle goes back to a mark that it did not set");
  const auto mark = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
  std::vector<ValueId> items(mark, stack_.end());
  stack_.erase(mark, stack_.end());
  marks_.pop_back();
  return items;
}

// ---- the memo -------------------------------------------------------------------------------------------------------------

void Machine::put(std::uint64_t index) {
  if (index >= kMostValues) refuse(opcode_, "pickle memoizes number {}, {} is the limit", index, kMostValues);
  if (index >= memo_.size()) memo_.resize(static_cast<std::size_t>(index) + 1, kUnset);
  ValueId& slot = memo_[static_cast<std::size_t>(index)];
  if (slot == kUnset) ++memoized_;
  slot = top();
}

void Machine::get(std::uint64_t index) {
  if (index >= memo_.size() || memo_[static_cast<std::size_t>(index)] == kUnset) {
    refuse(opcode_, "pickle recalls number {}, which it did not memoize", index);
  }
  push(memo_[static_cast<std::size_t>(index)]);
}

// ---- names, and what is done with them --------------------------------------------------------------------------------------

void Machine::name(std::string_view module, std::string_view name) {
  const auto known = std::ranges::find_if(
      globals_, [&](const Global& global) { return global.module == module && global.name == name; });
  if (known == globals_.end()) {
    refuse(opcode_,
           "pickle names {}.{}, which is no part of a checkpoint; nothing was imported: only a state_dict() is read",
           module, name);
  }
  push(add(Kind::global, known - globals_.begin()));
}

void Machine::name_from_stack() {
  const Value& function = pickle_.values[pop()];
  const Value& module = pickle_.values[pop()];
  if (function.kind != Kind::text || module.kind != Kind::text) {
    refuse(opcode_, "pickle names a global by a {} and a {}", name_of(module.kind), name_of(function.kind));
  }
  name(module.text.substr(0, Cursor::kLongestLine), function.text.substr(0, Cursor::kLongestLine));
}

void Machine::reduce() {
  const ValueId arguments = pop();
  const Value& function = pickle_.values[pop()];
  if (function.kind != Kind::global) refuse(opcode_, "pickle calls a {}", name_of(function.kind));
  const Global& global = globals_[static_cast<std::size_t>(function.integer)];
  if (global.role == Role::constant) refuse(opcode_, "pickle calls {}.{}", global.module, global.name);
  if (pickle_.values[arguments].kind != Kind::tuple) {
    refuse(opcode_, "pickle calls {}.{} with a {}", global.module, global.name,
           name_of(pickle_.values[arguments].kind));
  }
  if (global.role != Role::dict) return push(add(Kind::call, function.integer, {arguments}));
  make_dict(pickle_.values[arguments].items);
}

// A list may be given any number of times, so that what is copied of it is counted.
void Machine::make_dict(const std::vector<ValueId>& arguments) {
  std::vector<ValueId> items;
  if (!arguments.empty()) {
    const Value& list = pickle_.values[arguments.front()];
    if (arguments.size() > 1 || list.kind != Kind::list) {
      refuse(opcode_, "pickle makes a dictionary of what is no list of pairs");
    }
    copied_ += list.items.size();
    if (copied_ > kMostValues) refuse(opcode_, "pickle copies more than {} values", kMostValues);
    for (const ValueId id : list.items) {
      const Value& pair = pickle_.values[id];
      const bool is_pair = (pair.kind == Kind::list || pair.kind == Kind::tuple) && pair.items.size() == 2;
      if (!is_pair) refuse(opcode_, "pickle makes a dictionary of what is no list of pairs");
      items.insert(items.end(), pair.items.begin(), pair.items.end());
    }
  }
  push(add(Kind::dict, 0, std::move(items)));
}

// Attributes of a dictionary, as torch gives one to a state dict, are left out, and so is what torch 0.3 says of a
// parameter.
void Machine::build() {
  const Value& state = pickle_.values[pop()];
  const Value& object = pickle_.values[top()];
  if (object.kind == Kind::dict && state.kind == Kind::dict) return;
  const bool has_state =
      object.kind == Kind::call && globals_[static_cast<std::size_t>(object.integer)].role == Role::object;
  if (has_state && state.kind == Kind::tuple) return;
  refuse(opcode_, "pickle sets the state of a {} by a {}", name_of(object.kind), name_of(state.kind));
}

void Machine::append(std::vector<ValueId> items) {
  Value& list = pickle_.values[top()];
  if (list.kind != Kind::list) refuse(opcode_, "pickle appends to a {}", name_of(list.kind));
  list.items.insert(list.items.end(), items.begin(), items.end());
}

void Machine::set_items(std::vector<ValueId> items) {
  Value& dict = pickle_.values[top()];
  if (dict.kind != Kind::dict) refuse(opcode_, "pickle sets items of a {}", name_of(dict.kind));
  if (items.size() % 2 != 0) refuse(opcode_, "pickle sets a key without a value");
  dict.items.insert(dict.items.end(), items.begin(), items.end());
}

}  // namespace cli::legacy
