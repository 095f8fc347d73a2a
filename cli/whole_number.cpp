// SPDX-License-Identifier: Apache-2.0
#include "whole_number.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>

#include "formatted.hpp"
#include "text.hpp"

namespace cli {
namespace {

struct Unit {
  std::string_view name;
  std::uint64_t bytes;
};
constexpr std::array<Unit, 10> kUnits{{{"", 1},
                                       {"B", 1},
                                       {"KB", 1000},
                                       {"MB", 1'000'000},
                                       {"GB", 1'000'000'000},
                                       {"TB", 1'000'000'000'000},
                                       {"KIB", 1ULL << 10},
                                       {"MIB", 1ULL << 20},
                                       {"GIB", 1ULL << 30},
                                       {"TIB", 1ULL << 40}}};

std::uint64_t bytes_of(const std::string& text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return 0;
  std::string name(end, text.data() + text.size());
  name.erase(0, name.find_first_not_of(' '));
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::toupper(c); });
  const auto unit = std::find_if(kUnits.begin(), kUnits.end(), [&](const Unit& u) { return u.name == name; });
  return unit == kUnits.end() || value > UINT64_MAX / unit->bytes ? 0 : value * unit->bytes;
}

}  // namespace

std::string to_whole_number(std::string& text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    return formatted("{} is not a whole number from 0 to {}", shown(text, 40), UINT64_MAX);
  }
  text = std::to_string(value);
  return {};
}

std::string to_bytes(std::string& text) {
  const std::uint64_t bytes = bytes_of(text);
  if (bytes == 0) return formatted("{} is not a size such as 5GB, 500MB or 4GiB", shown(text, 40));
  text = std::to_string(bytes);
  return {};
}

}  // namespace cli
