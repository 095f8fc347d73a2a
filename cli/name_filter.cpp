// SPDX-License-Identifier: Apache-2.0
#include "name_filter.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "failure.hpp"
#include "pattern.hpp"
#include "text.hpp"

namespace cli {

// Takes one text at a time, because the parser splits [a,b] if an option takes several.
CLI::Option* NameFilter::declare(CLI::App& command, const std::string& description) {
  const auto add = [this](const std::string& pattern) { patterns_.push_back(pattern); };
  return command.add_option_function<std::string>("--filter", add, description)
      ->option_text("GLOB")
      ->trigger_on_parse();
}

void NameFilter::check() const {
  for (const std::string& pattern : patterns_) {
    const std::string fault = fault_of_pattern(pattern);
    if (!fault.empty()) throw Failure{kUsage, fmt::format("--filter {}: {}", shown(pattern, 100), fault)};
  }
}

bool NameFilter::fits(std::string_view name) const {
  if (patterns_.empty()) return true;
  const std::string text = printable(name);  // patterns match the name as it is shown, in which a NUL is escaped
  return std::any_of(patterns_.begin(), patterns_.end(),
                     [&](const std::string& pattern) { return matches(pattern, text); });
}

}  // namespace cli
