// Reads a pickle as data: the values that it describes, and nothing that it asks for is done.
//
// A pickle is a program for a stack machine, which may import any name and call it. This machine knows the opcodes that
// build numbers, text, lists, tuples and dictionaries, and a table of names that the caller gives it. A call of a name
// becomes a value of kind `call`, which holds the name and the arguments. Every other name and opcode is refused.
// Memory grows with the length of the pickle up to a fixed limit, and no function calls itself.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cursor.hpp"

namespace cli::legacy {

enum class Kind : std::uint8_t {
  none,
  boolean,     // integer is 0 or 1
  integer,     // integer
  big,         // an integer of more than 64 bits: text is its bytes, little-endian
  real,        // a float, whose value nothing needs
  text,        // text
  bytes,       // text
  list,        // items
  tuple,       // items
  dict,        // items: key, value, key, value
  global,      // integer is the number in the table
  call,        // integer is the number in the table, items: one tuple, the arguments
  persistent,  // items: one value, which names something outside of the pickle
};

const char* name_of(Kind kind);

using ValueId = std::uint32_t;

struct Value {
  Kind kind = Kind::none;
  std::uint64_t offset = 0;  // of the opcode that made it
  std::int64_t integer = 0;
  std::string_view text;
  std::vector<ValueId> items;
};

enum class Role : std::uint8_t { constant, function, object, dict };

// A name that a pickle may use. A constant may not be called. What an object gives may be given a state, which is left
// out. A dict is called without arguments, or with a list of pairs, as Python 2 wrote it.
struct Global {
  std::string_view module;
  std::string_view name;
  Role role;
};

// Lists and dictionaries may hold themselves: whoever follows items must count how deep.
struct Pickle {
  const Value& operator[](ValueId id) const { return values[id]; }

  std::vector<Value> values;
  std::deque<std::string> texts;  // what the values' text points to
  ValueId root = 0;
};

constexpr std::uint64_t kLongestPickle = std::uint64_t{64} << 20;
constexpr std::size_t kMostValues = 4'000'000;

// Reads one pickle of protocol 1 to 5 and leaves the cursor behind it. Throws a Refusal.
Pickle read_pickle(Cursor& cursor, std::span<const Global> globals);

}  // namespace cli::legacy
