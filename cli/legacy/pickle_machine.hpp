// The stack machine behind read_pickle: pickle.cpp has its loop and the opcodes, pickle_machine.cpp what they do.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pickle.hpp"

namespace cli::legacy {

class Machine {
 public:
  Machine(Cursor& cursor, std::span<const Global> globals) : cursor_(cursor), globals_(globals) {}

  Pickle run();

 private:
  void read_protocol();
  bool step();
  bool step_scalar(std::uint8_t code);
  bool step_container(std::uint8_t code);
  bool step_memo(std::uint8_t code);
  bool step_name(std::uint8_t code);
  [[noreturn]] void refuse_opcode(std::uint8_t code) const;

  ValueId add(Kind kind, std::int64_t integer = 0, std::vector<ValueId> items = {});
  void push(ValueId id);
  void mark();
  void push_number(std::int64_t value) { push(add(Kind::integer, value)); }
  void push_text(Kind kind, std::string text);
  void push_text(Kind kind, std::uint64_t bytes) { push_text(kind, cursor_.text(bytes)); }
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
  void make_dict(const std::vector<ValueId>& arguments);
  void build();
  void append(std::vector<ValueId> items);
  void set_items(std::vector<ValueId> items);

  Cursor& cursor_;
  std::span<const Global> globals_;
  Pickle pickle_;
  std::vector<ValueId> stack_;
  std::vector<std::size_t> marks_;
  std::vector<ValueId> memo_;
  std::uint64_t memoized_ = 0;
  std::size_t copied_ = 0;    // pairs of lists that became dictionaries
  std::uint64_t opcode_ = 0;  // where the current one lies
};

}  // namespace cli::legacy
