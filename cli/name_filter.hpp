// The option `--filter GLOB` of several commands: only tensors whose name matches one of its shell patterns.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include <safetensors/safetensors.hpp>

namespace cli {

class Command;

class NameFilter {
 public:
  // The parser keeps a reference to this object.
  void declare(Command& command, const char* description);

  // Throws a Failure for an invalid pattern. Must be called before matches().
  void check() const;

  // Every name matches if there is no pattern.
  bool matches(std::string_view name) const;
  // Throws a Failure if there are patterns and no name in these files matches.
  void require_one(const std::string& path, std::initializer_list<safetensors::SafeOpen> files) const;
  bool empty() const { return patterns_.empty(); }

 private:
  std::vector<std::string> patterns_;
};

}  // namespace cli
