// SPDX-License-Identifier: Apache-2.0
#include "pickle.hpp"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <limits>
#include <system_error>
#include <utility>

#include "error.hpp"

namespace cli::importer {
namespace {

// ---- opcodes ----------------------------------------------------------------------------------------------------------------

namespace op {

constexpr std::uint8_t kMark = '(', kStop = '.', kPop = '0', kPopMark = '1';
constexpr std::uint8_t kBinFloat = 'G', kInt = 'I', kBinInt = 'J', kBinInt1 = 'K', kLong = 'L', kBinInt2 = 'M';
constexpr std::uint8_t kNone = 'N', kBinPersid = 'Q', kReduce = 'R', kBinString = 'T', kShortBinString = 'U';
constexpr std::uint8_t kBinUnicode = 'X', kAppend = 'a', kBuild = 'b', kGlobal = 'c', kAppends = 'e', kBinGet = 'h';
constexpr std::uint8_t kLongBinGet = 'j', kBinPut = 'q', kLongBinPut = 'r', kSetItem = 's', kTuple = 't';
constexpr std::uint8_t kSetItems = 'u', kEmptyTuple = ')', kEmptyList = ']', kEmptyDict = '}', kBinBytes = 'B';
constexpr std::uint8_t kShortBinBytes = 'C';
constexpr std::uint8_t kProto = 0x80, kTuple1 = 0x85, kTuple2 = 0x86, kTuple3 = 0x87, kNewTrue = 0x88;
constexpr std::uint8_t kNewFalse = 0x89, kLong1 = 0x8A, kLong4 = 0x8B, kShortBinUnicode = 0x8C, kBinUnicode8 = 0x8D;
constexpr std::uint8_t kBinBytes8 = 0x8E, kStackGlobal = 0x93, kMemoize = 0x94, kFrame = 0x95, kByteArray8 = 0x96;
constexpr std::uint8_t kInst = 'i', kObj = 'o', kNewObj = 0x81, kNewObjEx = 0x92;
constexpr std::uint8_t kEmptySet = 0x8F, kAddItems = 0x90, kFrozenSet = 0x91;

struct Name {
  std::uint8_t code;
  std::string_view name;
};

// Known opcodes that are rejected: the text forms of protocol 0, and opcodes that need external data.
constexpr Name kRejected[] = {
    {'2', "DUP"},          {'F', "FLOAT"},
    {'P', "PERSID"},       {'S', "STRING"},
    {'V', "UNICODE"},      {'d', "DICT"},
    {'g', "GET"},          {'l', "LIST"},
    {'p', "PUT"},          {0x82, "EXT1"},
    {0x83, "EXT2"},        {0x84, "EXT4"},
    {0x97, "NEXT_BUFFER"}, {0x98, "READONLY_BUFFER"},
};

}  // namespace op

constexpr unsigned kOldest = 2;  // the oldest protocol that a pickle states
constexpr unsigned kNewest = 5;
constexpr ValueId kUnset = std::numeric_limits<ValueId>::max();
constexpr std::size_t kMostDigits = 100;  // because conversion takes quadratic time

// Memory charges, including the overhead of allocations.
constexpr std::uint64_t kItemBytes = 2 * sizeof(ValueId);  // vectors grow by doubling
constexpr std::uint64_t kItemsBytes = 32;                  // the first allocation of items
constexpr std::uint64_t kTextBytes = sizeof(std::string) + 32;

class Machine {
 public:
  Machine(Cursor& cursor, std::span<const Global> globals, Budget& budget)
      : cursor_(cursor), globals_(globals), budget_(budget) {}

  Pickle run();

 private:
  void read_protocol();
  bool step();
  bool step_scalar(std::uint8_t code);
  bool step_container(std::uint8_t code);
  bool step_memo(std::uint8_t code);
  bool step_name(std::uint8_t code);
  bool step_object(std::uint8_t code);
  [[noreturn]] void reject_opcode(std::uint8_t code) const;

  ValueId add(Kind kind, std::int64_t integer = 0, std::vector<ValueId> items = {});
  void push(ValueId id);
  void mark();
  void push_number(std::int64_t value) { push(add(Kind::integer, value)); }
  void charge(std::uint64_t bytes) { budget_.charge(bytes, opcode_); }
  std::string_view keep(std::string text);
  void push_text(Kind kind, std::string text);
  void push_text(Kind kind, std::uint64_t bytes) { push_text(kind, cursor_.text(bytes)); }
  void push_bytes(std::uint64_t bytes);
  void push_long(std::uint64_t bytes);
  void push_int();
  void push_long_int();
  void push_decimal(std::string_view text);
  ValueId pop();
  ValueId top() const;
  std::vector<ValueId> pop_to_mark();
  std::size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }

  void put(std::uint64_t index);
  void get(std::uint64_t index);
  void name(std::string_view module, std::string_view name);
  void name_from_stack();
  void reduce();
  void make_dict(std::span<const ValueId> arguments);
  void make_object(std::string_view name, std::vector<ValueId> items);
  void make_object(ValueId callee, std::vector<ValueId> items);
  std::string_view name_of_callee(ValueId callee);
  std::string_view name_of_result(ValueId callee, ValueId arguments);
  void build();
  void add_items(ValueId to, const std::vector<ValueId>& items);
  void append(const std::vector<ValueId>& items);
  void set_items(const std::vector<ValueId>& items);

  Cursor& cursor_;
  std::span<const Global> globals_;
  Budget& budget_;
  Pickle pickle_;
  std::vector<ValueId> stack_;
  std::vector<std::size_t> marks_;
  std::vector<ValueId> memo_;
  std::uint64_t memoized_ = 0;
  std::uint64_t opcode_ = 0;  // offset of the current opcode
};

// ---- the loop -----------------------------------------------------------------------------------------------------------

// Protocol 1 does not state its number.
void Machine::read_protocol() {
  if (cursor_.peek() != op::kProto) return;
  cursor_.skip(1);
  const unsigned protocol = cursor_.u8();
  if (protocol < kOldest || protocol > kNewest)
    fail(opcode_, "unsupported pickle protocol {} (supported: 1 to 5)", protocol);
}

Pickle Machine::run() {
  opcode_ = cursor_.offset();
  const std::uint64_t begin = cursor_.position();
  read_protocol();
  do {
    opcode_ = cursor_.offset();
    if (cursor_.position() - begin > kLongestPickle) {
      fail(opcode_, "pickle of more than {} bytes", kLongestPickle);
    }
  } while (step());
  if (stack_.size() != 1 || !marks_.empty())
    fail(opcode_, "pickle ends with {} values on its stack, expected 1", stack_.size());
  pickle_.root = stack_.front();
  return std::move(pickle_);
}

bool Machine::step() {
  const std::uint8_t code = cursor_.u8();
  if (code == op::kStop) return false;
  if (!step_scalar(code) && !step_container(code) && !step_memo(code) && !step_name(code) && !step_object(code)) {
    reject_opcode(code);
  }
  return true;
}

bool Machine::step_scalar(std::uint8_t code) {
  switch (code) {
    case op::kNone: push(add(Kind::none)); return true;
    case op::kNewTrue: push(add(Kind::boolean, 1)); return true;
    case op::kNewFalse: push(add(Kind::boolean, 0)); return true;
    case op::kBinInt: push_number(static_cast<std::int32_t>(cursor_.u32())); return true;
    case op::kBinInt1: push_number(cursor_.u8()); return true;
    case op::kBinInt2: push_number(cursor_.u16()); return true;
    case op::kInt: push_int(); return true;
    case op::kLong: push_long_int(); return true;
    case op::kLong1: push_long(cursor_.u8()); return true;
    case op::kLong4: push_long(cursor_.u32()); return true;
    case op::kBinFloat:
      cursor_.skip(8);
      push(add(Kind::real));
      return true;
    case op::kShortBinString:
    case op::kShortBinUnicode: push_text(Kind::text, cursor_.u8()); return true;
    case op::kBinString:
    case op::kBinUnicode: push_text(Kind::text, cursor_.u32()); return true;
    case op::kBinUnicode8: push_text(Kind::text, cursor_.u64()); return true;
    case op::kShortBinBytes: push_bytes(cursor_.u8()); return true;
    case op::kBinBytes: push_bytes(cursor_.u32()); return true;
    case op::kBinBytes8:
    case op::kByteArray8: push_bytes(cursor_.u64()); return true;
    default: return false;
  }
}

bool Machine::step_container(std::uint8_t code) {
  switch (code) {
    case op::kMark: mark(); return true;
    case op::kPop: pop(); return true;
    case op::kPopMark: pop_to_mark(); return true;
    case op::kEmptyList: push(add(Kind::list)); return true;
    case op::kEmptyDict: push(add(Kind::dict)); return true;
    case op::kEmptyTuple: push(add(Kind::tuple)); return true;
    case op::kTuple: push(add(Kind::tuple, 0, pop_to_mark())); return true;
    case op::kTuple1:
    case op::kTuple2:
    case op::kTuple3: {
      std::vector<ValueId> items(static_cast<std::size_t>(code - op::kTuple1) + 1);
      for (auto item = items.rbegin(); item != items.rend(); ++item) *item = pop();
      push(add(Kind::tuple, 0, std::move(items)));
      return true;
    }
    case op::kAppend: append({pop()}); return true;
    case op::kAppends: append(pop_to_mark()); return true;
    case op::kSetItem: {
      const ValueId value = pop();
      set_items({pop(), value});
      return true;
    }
    case op::kSetItems: set_items(pop_to_mark()); return true;
    default: return false;
  }
}

bool Machine::step_memo(std::uint8_t code) {
  switch (code) {
    case op::kBinPut: put(cursor_.u8()); return true;
    case op::kLongBinPut: put(cursor_.u32()); return true;
    case op::kMemoize: put(memoized_); return true;
    case op::kBinGet: get(cursor_.u8()); return true;
    case op::kLongBinGet: get(cursor_.u32()); return true;
    default: return false;
  }
}

bool Machine::step_name(std::uint8_t code) {
  switch (code) {
    case op::kGlobal: {
      const std::string module = cursor_.line();
      name(module, cursor_.line());
      return true;
    }
    case op::kStackGlobal: name_from_stack(); return true;
    case op::kReduce: reduce(); return true;
    case op::kBuild: build(); return true;
    case op::kBinPersid: push(add(Kind::persistent, 0, {pop()})); return true;
    case op::kFrame:
      if (const std::uint64_t bytes = cursor_.u64(); bytes > cursor_.left()) {
        fail(opcode_, "pickle has a frame of {} bytes, but {} are left", bytes, cursor_.left());
      }
      return true;
    default: return false;
  }
}

// The opcodes that create objects and sets.
bool Machine::step_object(std::uint8_t code) {
  switch (code) {
    case op::kInst: {
      std::string name = cursor_.line();
      name += "." + cursor_.line();
      make_object(keep(std::move(name)), pop_to_mark());
      return true;
    }
    case op::kObj: {
      std::vector<ValueId> items = pop_to_mark();
      if (items.empty()) fail(opcode_, "pickle creates an object without a class");
      const ValueId callee = items.front();
      make_object(callee, std::move(items));
      return true;
    }
    case op::kNewObj:
    case op::kNewObjEx: {
      std::vector<ValueId> items;
      if (code == op::kNewObjEx) items.push_back(pop());
      items.push_back(pop());
      make_object(pop(), std::move(items));
      return true;
    }
    case op::kEmptySet: make_object("set", {}); return true;
    case op::kFrozenSet: make_object("frozenset", pop_to_mark()); return true;
    case op::kAddItems: {
      const std::vector<ValueId> items = pop_to_mark();
      const Kind kind = pickle_.values[top()].kind;
      if (kind != Kind::object) fail(opcode_, "pickle adds items to a {}", name_of(kind));
      add_items(top(), items);
      return true;
    }
    default: return false;
  }
}

void Machine::reject_opcode(std::uint8_t code) const {
  const auto* known = std::ranges::find(op::kRejected, code, &op::Name::code);
  if (known == std::end(op::kRejected)) fail(opcode_, "pickle has the byte 0x{:02x}, which is not an opcode", code);
  fail(opcode_, "pickle has the opcode {}, which no checkpoint needs", known->name);
}

// Converts a decimal number to two's complement bytes, as LONG1 has them.
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

// ---- values and the stack -------------------------------------------------------------------------------------------------

ValueId Machine::add(Kind kind, std::int64_t integer, std::vector<ValueId> items) {
  charge(sizeof(Value) + (items.empty() ? 0 : kItemsBytes + kItemBytes * items.size()));
  pickle_.values.push_back({kind, opcode_, integer, {}, std::move(items)});
  return static_cast<ValueId>(pickle_.values.size() - 1);
}

std::string_view Machine::keep(std::string text) {
  charge(kTextBytes + text.size());
  return pickle_.texts.emplace_back(std::move(text));
}

void Machine::push_text(Kind kind, std::string text) {
  const std::string_view kept = keep(std::move(text));
  const ValueId id = add(kind);
  pickle_.values[id].text = kept;
  push(id);
}

void Machine::push_bytes(std::uint64_t bytes) {
  cursor_.skip(bytes);
  push(add(Kind::bytes));
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

// Rejects a leading 0. Python's two implementations disagree about it: for INT 010, one returns 8 and the other fails.
void Machine::push_decimal(std::string_view text) {
  const std::string_view digits = text.substr(text.starts_with('-') ? 1 : 0);
  const bool has_base = digits.size() > 1 && digits.front() == '0';
  std::int64_t value = 0;
  const char* const behind = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), behind, value);
  if (end != behind || error == std::errc::invalid_argument || has_base || text.size() > kMostDigits) {
    fail(opcode_, "pickle has an invalid number '{}'", text);
  }
  error == std::errc{} ? push_number(value) : push_text(Kind::big, bytes_of_decimal(text));
}

void Machine::push(ValueId id) {
  if (stack_.size() == stack_.capacity()) charge(kItemBytes * (stack_.size() + 1));
  stack_.push_back(id);
}

void Machine::mark() {
  charge(2 * sizeof(std::size_t));
  marks_.push_back(stack_.size());
}

ValueId Machine::pop() {
  const ValueId id = top();
  stack_.pop_back();
  return id;
}

ValueId Machine::top() const {
  if (stack_.size() <= floor()) fail(opcode_, "pickle pops from an empty stack");
  return stack_.back();
}

std::vector<ValueId> Machine::pop_to_mark() {
  if (marks_.empty()) fail(opcode_, "pickle refers to a mark, but none is set");
  const auto mark = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
  std::vector<ValueId> items(mark, stack_.end());
  stack_.erase(mark, stack_.end());
  marks_.pop_back();
  return items;
}

// ---- the memo -------------------------------------------------------------------------------------------------------------

void Machine::put(std::uint64_t index) {
  if (index >= memo_.size()) {
    charge(kItemBytes * (index + 1 - memo_.size()));
    memo_.resize(static_cast<std::size_t>(index) + 1, kUnset);
  }
  ValueId& slot = memo_[static_cast<std::size_t>(index)];
  if (slot == kUnset) ++memoized_;
  slot = top();
}

void Machine::get(std::uint64_t index) {
  if (index >= memo_.size() || memo_[static_cast<std::size_t>(index)] == kUnset) {
    fail(opcode_, "pickle reads memo entry {}, which was never set", index);
  }
  push(memo_[static_cast<std::size_t>(index)]);
}

// ---- names and calls ----------------------------------------------------------------------------------------------------------

void Machine::name(std::string_view module, std::string_view name) {
  const auto known = std::ranges::find_if(
      globals_, [&](const Global& global) { return global.module == module && global.name == name; });
  if (known != globals_.end()) return push(add(Kind::global, known - globals_.begin()));
  const std::string_view text = keep(std::string(module).append(".").append(name));
  const ValueId id = add(Kind::global, kUnknown);
  pickle_.values[id].text = text;
  push(id);
}

void Machine::name_from_stack() {
  const Value& function = pickle_.values[pop()];
  const Value& module = pickle_.values[pop()];
  if (function.kind != Kind::text || module.kind != Kind::text) {
    fail(opcode_, "pickle names a global by types {} and {}, expected two strings", name_of(module.kind),
         name_of(function.kind));
  }
  name(module.text.substr(0, Cursor::kLongestLine), function.text.substr(0, Cursor::kLongestLine));
}

void Machine::reduce() {
  const ValueId arguments = pop();
  const ValueId callee = pop();
  const Value& function = pickle_.values[callee];
  if (function.kind != Kind::global || function.integer == kUnknown) {
    std::vector<ValueId> items{arguments};
    if (function.kind == Kind::object) items.push_back(callee);  // for example a method of an object with tensors
    return make_object(name_of_result(callee, arguments), std::move(items));
  }
  const Global& global = globals_[static_cast<std::size_t>(function.integer)];
  if (global.role == Role::constant) fail(opcode_, "pickle calls {}.{}", global.module, global.name);
  if (pickle_.values[arguments].kind != Kind::tuple) {
    fail(opcode_, "pickle calls {}.{} with a {}", global.module, global.name, name_of(pickle_.values[arguments].kind));
  }
  if (global.role != Role::dict) return push(add(Kind::call, function.integer, {arguments}));
  make_dict(pickle_.values[arguments].items);
}

// Makes a dictionary from the arguments of dict(), OrderedDict() or defaultdict(). Ignores the first argument of
// defaultdict(), its factory.
void Machine::make_dict(std::span<const ValueId> arguments) {
  std::vector<ValueId> items;
  if (!arguments.empty()) {
    const Kind first = pickle_.values[arguments.front()].kind;
    if (first == Kind::global || first == Kind::object) arguments = arguments.subspan(1);
  }
  if (!arguments.empty()) {
    const Value& list = pickle_.values[arguments.front()];
    if (arguments.size() > 1 || (list.kind != Kind::list && list.kind != Kind::dict)) {
      fail(opcode_, "pickle creates a dictionary from something other than a list of pairs");
    }
    if (list.kind == Kind::dict) {
      charge(kItemBytes * list.items.size());
      return push(add(Kind::dict, 0, list.items));
    }
    charge(2 * kItemBytes * list.items.size());  // because a pickle can use the same list many times
    for (const ValueId id : list.items) {
      const Value& pair = pickle_.values[id];
      const bool is_pair = (pair.kind == Kind::list || pair.kind == Kind::tuple) && pair.items.size() == 2;
      if (!is_pair) fail(opcode_, "pickle creates a dictionary from something other than a list of pairs");
      items.insert(items.end(), pair.items.begin(), pair.items.end());
    }
  }
  push(add(Kind::dict, 0, std::move(items)));
}

void Machine::make_object(std::string_view name, std::vector<ValueId> items) {
  const ValueId id = add(Kind::object, 0, std::move(items));
  pickle_.values[id].text = name;
  push(id);
}

void Machine::make_object(ValueId callee, std::vector<ValueId> items) {
  if (pickle_.values[callee].kind == Kind::object) items.push_back(callee);
  make_object(name_of_callee(callee), std::move(items));
}

// A class may also be an object or a persistent id: old versions of torch store the source code of a module's class.
std::string_view Machine::name_of_callee(ValueId callee) {
  const Value& value = pickle_.values[callee];
  if (value.kind == Kind::object) return value.text;
  if (value.kind == Kind::persistent) return "a class with source code";
  if (value.kind != Kind::global) fail(opcode_, "pickle calls a {}", name_of(value.kind));
  if (value.integer == kUnknown) return value.text;
  const Global& global = globals_[static_cast<std::size_t>(value.integer)];
  return keep(std::string(global.module).append(".").append(global.name));
}

// For functions that create an object of the class in their first argument, returns that class.
std::string_view Machine::name_of_result(ValueId callee, ValueId arguments) {
  const std::string_view name = name_of_callee(callee);
  const Value& tuple = pickle_.values[arguments];
  const bool takes_class = name.ends_with("._reconstructor") || name.ends_with("._reconstruct");  // copyreg's, numpy's
  if (!takes_class || tuple.kind != Kind::tuple || tuple.items.empty()) return name;
  const Value& type = pickle_.values[tuple.items.front()];
  return type.kind == Kind::global && type.integer == kUnknown ? type.text : name;
}

// Drops the attributes of a dictionary (a state dict has some) and the state of a parameter in torch 0.3.
void Machine::build() {
  const ValueId state_id = pop();
  const Value& state = pickle_.values[state_id];
  const Value& object = pickle_.values[top()];
  if (object.kind == Kind::object) return add_items(top(), {state_id});
  if (object.kind == Kind::dict && state.kind == Kind::dict) return;
  const bool has_state =
      object.kind == Kind::call && globals_[static_cast<std::size_t>(object.integer)].role == Role::object;
  if (has_state && state.kind == Kind::tuple) return;
  fail(opcode_, "pickle sets the state of a {} from a {}", name_of(object.kind), name_of(state.kind));
}

void Machine::add_items(ValueId to, const std::vector<ValueId>& items) {
  std::vector<ValueId>& list = pickle_.values[to].items;
  charge((list.empty() ? kItemsBytes : 0) + kItemBytes * items.size());
  list.insert(list.end(), items.begin(), items.end());
}

// The next two also fill objects, because a class can extend list or dict.
void Machine::append(const std::vector<ValueId>& items) {
  const Kind kind = pickle_.values[top()].kind;
  if (kind != Kind::list && kind != Kind::object) fail(opcode_, "pickle appends to a {}", name_of(kind));
  add_items(top(), items);
}

void Machine::set_items(const std::vector<ValueId>& items) {
  const Kind kind = pickle_.values[top()].kind;
  if (kind != Kind::dict && kind != Kind::object) fail(opcode_, "pickle sets items of a {}", name_of(kind));
  if (items.size() % 2 != 0) fail(opcode_, "pickle sets a key without a value");
  add_items(top(), items);
}

}  // namespace

const char* name_of(Kind kind) {
  switch (kind) {
    case Kind::none: return "None";
    case Kind::boolean: return "boolean";
    case Kind::integer:
    case Kind::big: return "integer";
    case Kind::real: return "float";
    case Kind::text: return "string";
    case Kind::bytes: return "bytes object";
    case Kind::list: return "list";
    case Kind::tuple: return "tuple";
    case Kind::dict: return "dictionary";
    case Kind::global: return "global";
    case Kind::call: return "call";
    case Kind::object: return "Python object";
    case Kind::persistent: return "storage";
  }
  return "value";
}

Pickle read_pickle(Cursor& cursor, std::span<const Global> globals, Budget& budget) {
  return Machine(cursor, globals, budget).run();
}

}  // namespace cli::importer
