// SPDX-License-Identifier: Apache-2.0
#include "name_filter.hpp"

#include <algorithm>

#include "arguments.hpp"
#include "failure.hpp"
#include "pattern.hpp"
#include "text.hpp"

namespace cli {

void NameFilter::declare(Command& command, const char* description) {
  command.add_repeated("--filter", patterns_, description).shown_as("GLOB");
}

void NameFilter::check() const {
  for (const std::string& pattern : patterns_) {
    const std::string fault = fault_of_pattern(pattern);
    if (!fault.empty()) throw Failure{kUsage, formatted("--filter {}: {}", shown(pattern, 100), fault)};
  }
}

bool NameFilter::matches(std::string_view name) const {
  if (patterns_.empty()) return true;
  const std::string text = printable(name);  // match names as they are printed, with escapes for control characters
  return std::any_of(patterns_.begin(), patterns_.end(),
                     [&](const std::string& pattern) { return cli::matches(pattern, text); });
}

void NameFilter::require_one(const std::string& path, std::initializer_list<safetensors::SafeOpen> files) const {
  if (patterns_.empty()) return;
  for (const safetensors::SafeOpen& file : files) {
    if (std::any_of(file.begin(), file.end(),
                    [this](const safetensors::Tensor& tensor) { return matches(tensor.name); }))
      return;
  }
  const std::string nearest = did_you_mean(patterns_.front(), files.begin()->offset_keys());
  throw Failure{kUsage, path + ": no tensor matches --filter" + nearest};
}

}  // namespace cli
