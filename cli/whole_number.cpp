// SPDX-License-Identifier: Apache-2.0
#include "whole_number.hpp"

#include <charconv>
#include <cstdint>
#include <string>

#include <fmt/format.h>

#include "text.hpp"

namespace cli {

CLI::Validator whole_number() {
  const auto check = [](std::string& text) -> std::string {
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) {
      return fmt::format("{} is not a whole number from 0 to {}", shown(text, 40), UINT64_MAX);
    }
    text = std::to_string(value);
    return {};
  };
  return {check, ""};
}

}  // namespace cli
