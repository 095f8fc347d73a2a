// Interprets and searches the values of a torch pickle.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "pickle.hpp"

namespace cli::importer {

// value: of kind `call`.
bool is_size(const Value& value);

// Returns whether a value of kind `persistent` refers to a storage. In old versions of torch, it may also refer to a
// class.
bool is_storage(const Pickle& pickle, const Value& value);

bool can_be_name(const Value& key);

// Returns the text of a string or integer key. For any other key, returns a description for messages.
std::string key_text(const Value& key);

// Describes a value for messages.
std::string words_of(const Value& value);

// Returns the value at `key`, which may be keys and indexes joined by dots. Throws an ImportError.
ValueId find_value(const Pickle& pickle, const std::string& key);

// Finds tensors below values, visiting each value once. Not recursive: values can contain each other in any way, and so
// deeply that recursion would overflow the stack.
class Search {
 public:
  explicit Search(const Pickle& pickle) : pickle_(pickle), seen_(pickle.values.size()) {}

  // Returns whether there is a tensor below the value. If there is, the search must not be used again.
  bool finds_tensor(ValueId id) {
    return walk(id, [](ValueId) { return false; });
  }

  // Excludes everything below the value.
  void skip(ValueId id) {
    walk(id, [](ValueId) { return true; });
  }

  // Returns the number of tensors below the value, and the path of the first one.
  std::pair<std::uint64_t, std::string> count(ValueId id);

 private:
  bool walk(ValueId root, const std::function<bool(ValueId)>& take);
  std::string name_of(ValueId id) const;

  const Pickle& pickle_;
  std::vector<bool> seen_;
  std::vector<ValueId> parents_;  // empty until count()
};

}  // namespace cli::importer
