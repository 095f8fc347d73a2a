// SPDX-License-Identifier: Apache-2.0
#include "pattern.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

#include "formatted.hpp"
#include "text.hpp"

namespace cli {
namespace {

constexpr std::array<std::string_view, 12> kClasses{"alnum", "alpha", "blank", "cntrl", "digit", "graph",
                                                    "lower", "print", "punct", "space", "upper", "xdigit"};

// One member of a bracket expression.
struct Member {
  std::size_t end = std::string_view::npos;  // where the next one begins; npos: it is not closed
  bool known = true;                         // a [:class:] may be unknown
};

// A character, or the [:class:], [=c=] or [.c.] that begins at `at`.
Member member_at(std::string_view pattern, std::size_t at) {
  constexpr std::string_view kKinds = ":=.";
  const bool named = pattern[at] == '[' && at + 1 < pattern.size() && kKinds.find(pattern[at + 1]) != kKinds.npos;
  if (!named) return {at + 1, true};
  const char kind = pattern[at + 1];
  const std::size_t close = pattern.find(std::string{kind, ']'}, at + 2);
  if (close == pattern.npos) return {at + 1, true};
  const std::string_view name = pattern.substr(at + 2, close - at - 2);
  return {close + 2, kind != ':' || std::find(kClasses.begin(), kClasses.end(), name) != kClasses.end()};
}

}  // namespace

std::string fault_of_pattern(std::string_view pattern) {
  for (std::size_t at = 0; at < pattern.size(); ++at) {
    if (pattern[at] != '[') continue;
    const std::size_t open = at++;
    if (at < pattern.size() && (pattern[at] == '!' || pattern[at] == '^')) ++at;
    bool first = true;  // a ] that comes first is an ordinary member
    while (at < pattern.size() && (first || pattern[at] != ']')) {
      const Member member = member_at(pattern, at);
      if (!member.known) return formatted("there is no class {}", shown(pattern.substr(at, member.end - at), 40));
      first = false;
      at = member.end;
    }
    if (at >= pattern.size()) return formatted("the [ at byte {} is not closed, for a [ itself write [[]", open);
  }
  return {};
}

}  // namespace cli
