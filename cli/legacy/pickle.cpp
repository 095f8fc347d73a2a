// SPDX-License-Identifier: Apache-2.0
#include "pickle.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "opcodes.hpp"
#include "pickle_machine.hpp"
#include "refusal.hpp"

namespace cli::legacy {
namespace {

constexpr unsigned kOldest = 2;  // that says its number
constexpr unsigned kNewest = 5;

}  // namespace

// ---- the loop -----------------------------------------------------------------------------------------------------------

// Protocol 1 has no opcode of its own to begin with.
void Machine::read_protocol() {
  if (cursor_.peek() != op::kProto) return;
  cursor_.skip(1);
  const unsigned protocol = cursor_.u8();
  if (protocol < kOldest || protocol > kNewest)
    refuse(opcode_, "has a pickle of protocol {}, by an opcode that 2 to 5 have", protocol);
}

Pickle Machine::run() {
  opcode_ = cursor_.offset();
  const std::uint64_t begin = cursor_.position();
  read_protocol();
  do {
    opcode_ = cursor_.offset();
    if (cursor_.position() - begin > kLongestPickle) {
      refuse(opcode_, "has a pickle of more than {} bytes", kLongestPickle);
    }
  } while (step());
  if (stack_.size() != 1 || !marks_.empty()) refuse(opcode_, "pickle ends with {} values, not with one", stack_.size());
  pickle_.root = stack_.front();
  return std::move(pickle_);
}

bool Machine::step() {
  const std::uint8_t code = cursor_.u8();
  if (code == op::kStop) return false;
  if (!step_scalar(code) && !step_container(code) && !step_memo(code) && !step_name(code)) refuse_opcode(code);
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
    case op::kShortBinBytes: push_text(Kind::bytes, cursor_.u8()); return true;
    case op::kBinBytes: push_text(Kind::bytes, cursor_.u32()); return true;
    case op::kBinBytes8: push_text(Kind::bytes, cursor_.u64()); return true;
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
        refuse(opcode_, "pickle has a frame of {} bytes, {} are left", bytes, cursor_.left());
      }
      return true;
    default: return false;
  }
}

void Machine::refuse_opcode(std::uint8_t code) const {
  const auto* known = std::ranges::find(op::kRefused, code, &op::Name::code);
  if (known == std::end(op::kRefused)) refuse(opcode_, "pickle has the byte 0x{:02x}, which is no opcode", code);
  refuse(opcode_, "pickle has the opcode {}, which no checkpoint needs", known->name);
}

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
    case Kind::persistent: return "storage";
  }
  return "value";
}

Pickle read_pickle(Cursor& cursor, std::span<const Global> globals) { return Machine(cursor, globals).run(); }

}  // namespace cli::legacy
