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
  command.add_repeated("--exclude", excluded_, "Exclude tensors whose name matches this pattern; repeatable")
      .shown_as("GLOB");
}

void NameFilter::check() const {
  const auto check_all = [](std::string_view option, const std::vector<std::string>& patterns) {
    for (const std::string& pattern : patterns) {
      const std::string fault = fault_of_pattern(pattern);
      if (!fault.empty()) throw Failure{kUsage, formatted("{} {}: {}", option, shown(pattern, 100), fault)};
    }
  };
  check_all("--filter", patterns_);
  check_all("--exclude", excluded_);
}

bool NameFilter::matches(std::string_view name) const {
  if (empty()) return true;
  const std::string text = printable(name);  // match names as printed, with control characters escaped
  const auto matches_one = [&](const std::vector<std::string>& patterns) {
    return std::any_of(patterns.begin(), patterns.end(),
                       [&](const std::string& pattern) { return cli::matches(pattern, text); });
  };
  return (patterns_.empty() || matches_one(patterns_)) && !matches_one(excluded_);
}

void NameFilter::require_one(const std::string& path, std::initializer_list<safetensors::SafeOpen> files) const {
  if (empty()) return;
  for (const safetensors::SafeOpen& file : files) {
    if (std::any_of(file.begin(), file.end(),
                    [this](const safetensors::Tensor& tensor) { return matches(tensor.name); }))
      return;
  }
  if (!excluded_.empty()) throw Failure{kUsage, path + ": --filter and --exclude leave no tensors"};
  const std::string nearest = did_you_mean(patterns_.front(), files.begin()->offset_keys());
  throw Failure{kUsage, path + ": no tensor matches --filter" + nearest};
}

}  // namespace cli
