// Parses a pickle as data, without executing it.
//
// A pickle is a program for a stack machine that may import and call any name. This machine imports and calls nothing.
// A call of a known name (in the caller's table) becomes a value of kind `call` with the name and the arguments. A call
// of any other name becomes a value of kind `object`, which keeps the name and everything that the pickle stores in the
// object. Memory use is limited (budget.hpp), and no function is recursive.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "budget.hpp"
#include "input.hpp"

namespace cli::importer {

enum class Kind : std::uint8_t {
  none,
  boolean,     // integer is 0 or 1
  integer,     // integer
  big,         // an integer of more than 64 bits: text has its bytes, little-endian
  real,        // a float; its value is not kept
  text,        // text
  bytes,       // contents not kept
  list,        // items
  tuple,       // items
  dict,        // items: key, value, key, value
  global,      // integer is the index in the table; for other names kUnknown, and text is "module.name"
  call,        // integer is the index in the table; items: one tuple, the arguments
  object,      // of an unknown class: text is the class or function, items are arguments, state and contents
  persistent,  // items: one value, which identifies an object outside the pickle
};

const char* name_of(Kind kind);

using ValueId = std::uint32_t;
constexpr std::int64_t kUnknown = -1;

struct Value {
  Kind kind = Kind::none;
  std::uint64_t offset = 0;  // of the opcode that created it
  std::int64_t integer = 0;
  std::string_view text;
  std::vector<ValueId> items;
};

// The role of a known name. A constant cannot be called. An object's result may get a state, which is dropped. A dict
// is called without arguments, with a factory for default values, or with a list of pairs as in Python 2.
enum class Role : std::uint8_t { constant, function, object, dict };

// A name that the caller knows.
struct Global {
  std::string_view module;
  std::string_view name;
  Role role;
};

// Lists and dictionaries can contain themselves, so code that follows items must limit its depth.
struct Pickle {
  const Value& operator[](ValueId id) const { return values[id]; }

  std::deque<Value> values;
  std::deque<std::string> texts;  // storage of the values' text
  ValueId root = 0;
};

constexpr std::uint64_t kLongestPickle = std::uint64_t{64} << 20;

// Reads one pickle of protocol 1 to 5, and leaves the cursor after it. Throws an ImportError.
Pickle read_pickle(Cursor& cursor, std::span<const Global> globals, Budget& budget);

}  // namespace cli::importer
