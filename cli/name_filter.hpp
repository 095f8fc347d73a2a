// The options `--filter GLOB` and `--exclude GLOB` of several commands. They select the tensors whose name matches at
// least one --filter pattern and no --exclude pattern.
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
  // `description` describes --filter in the help. The parser keeps a reference to this object.
  void declare(Command& command, const char* description);

  // Throws a Failure for an invalid pattern. Must be called before matches().
  void check() const;

  // Without --filter, every name matches unless it is excluded.
  bool matches(std::string_view name) const;
  // Throws a Failure if there are patterns, but no name in these files matches.
  void require_one(const std::string& path, std::initializer_list<safetensors::SafeOpen> files) const;
  bool empty() const { return patterns_.empty() && excluded_.empty(); }

 private:
  std::vector<std::string> patterns_;
  std::vector<std::string> excluded_;
};

}  // namespace cli
