// Parses a pickle as data, without executing it.
//
// A pickle is a program for a stack machine that may import any name and call it. This machine has only the opcodes for
// numbers, text, lists, tuples and dictionaries, and only the names in a table of its caller. Calling such a name makes
// a value of kind `call` with the name and the arguments. Every other name and opcode is an error. Memory grows with the
// length of the pickle up to a fixed limit, and no function is recursive.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "input.hpp"

namespace cli::importer {

enum class Kind : std::uint8_t {
  none,
  boolean,     // integer is 0 or 1
  integer,     // integer
  big,         // an integer of more than 64 bits: text has its bytes, little-endian
  real,        // a float, whose value is not kept
  text,        // text
  bytes,       // text
  list,        // items
  tuple,       // items
  dict,        // items: key, value, key, value
  global,      // integer is the index in the table
  call,        // integer is the index in the table; items: one tuple, the arguments
  persistent,  // items: one value, which names an object outside of the pickle
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

// A constant cannot be called. The result of an object may get a state, which is dropped. A dict is called without
// arguments, or with a list of pairs as in Python 2.
enum class Role : std::uint8_t { constant, function, object, dict };

// A name that a pickle may use.
struct Global {
  std::string_view module;
  std::string_view name;
  Role role;
};

// Lists and dictionaries can contain themselves, so code that follows items must limit its depth.
struct Pickle {
  const Value& operator[](ValueId id) const { return values[id]; }

  std::vector<Value> values;
  std::deque<std::string> texts;  // storage of the values' text
  ValueId root = 0;
};

constexpr std::uint64_t kLongestPickle = std::uint64_t{64} << 20;
constexpr std::size_t kMostValues = 4'000'000;

// Reads one pickle of protocol 1 to 5, and leaves the cursor after it. Throws an ImportError.
Pickle read_pickle(Cursor& cursor, std::span<const Global> globals);

}  // namespace cli::importer
