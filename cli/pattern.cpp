// SPDX-License-Identifier: Apache-2.0
#include "pattern.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <optional>

#include "text.hpp"

namespace cli {
namespace {

struct Class {
  std::string_view name;
  int (*holds)(int);
};
constexpr std::array<Class, 12> kClasses{{{"alnum", std::isalnum},
                                          {"alpha", std::isalpha},
                                          {"blank", std::isblank},
                                          {"cntrl", std::iscntrl},
                                          {"digit", std::isdigit},
                                          {"graph", std::isgraph},
                                          {"lower", std::islower},
                                          {"print", std::isprint},
                                          {"punct", std::ispunct},
                                          {"space", std::isspace},
                                          {"upper", std::isupper},
                                          {"xdigit", std::isxdigit}}};

// Returns nullptr for an unknown name.
const Class* class_of(std::string_view name) {
  const auto found = std::find_if(kClasses.begin(), kClasses.end(), [&](const Class& c) { return c.name == name; });
  return found == kClasses.end() ? nullptr : &*found;
}

// ---- checking

// One member of a bracket expression.
struct Member {
  std::size_t end;  // where the next one begins
  bool known;       // false for an unknown [:class:]
};

// Returns the character, [:class:], [=c=] or [.c.] that begins at `at`.
Member member_at(std::string_view pattern, std::size_t at) {
  constexpr std::string_view kKinds = ":=.";
  const bool named = pattern[at] == '[' && at + 1 < pattern.size() && kKinds.find(pattern[at + 1]) != kKinds.npos;
  if (!named) return {at + 1, true};
  const char kind = pattern[at + 1];
  const std::size_t close = pattern.find(std::string{kind, ']'}, at + 2);
  if (close == pattern.npos) return {at + 1, true};
  const std::string_view name = pattern.substr(at + 2, close - at - 2);
  return {close + 2, kind != ':' || class_of(name) != nullptr};
}

// ---- matching

// Returns the [:class:], [.c.] or [=c=] at `at`, or "" if the [ is an ordinary member.
std::string_view named_at(std::string_view pattern, std::size_t at, char kind) {
  if (pattern.substr(at, 2) != std::string{'[', kind}) return {};
  const std::size_t close = pattern.find(std::string{kind, ']'}, at + 2);
  return close == pattern.npos ? std::string_view() : pattern.substr(at, close + 2 - at);
}

// Returns the one character between [. and .], or nullopt if there are several or none.
std::optional<char32_t> character_named(std::string_view named) {
  if (named.size() < 5) return std::nullopt;
  std::size_t at = 2;
  const char32_t c = next_character(named, at);
  return at + 2 == named.size() ? std::optional(c) : std::nullopt;
}

// Returns one character of a bracket expression, which may be spelled [.c.], and advances `at`. Returns nullopt for a
// name of several characters, which matches none.
std::optional<char32_t> member(std::string_view pattern, std::size_t& at) {
  const std::string_view named = named_at(pattern, at, '.');
  if (named.empty()) return next_character(pattern, at);
  at += named.size();
  return character_named(named);
}

char byte_at(std::string_view pattern, std::size_t at) { return at < pattern.size() ? pattern[at] : '\0'; }

// Returns whether the member at `at` contains c, and advances `at`.
std::optional<bool> member_holds(std::string_view pattern, std::size_t& at, char32_t c) {
  if (const std::string_view named = named_at(pattern, at, ':'); !named.empty()) {
    at += named.size();
    const Class* const found = class_of(named.substr(2, named.size() - 4));
    return found != nullptr && c < 0x80 && found->holds(static_cast<int>(c)) != 0;
  }
  if (const std::string_view named = named_at(pattern, at, '='); !named.empty()) {
    at += named.size();
    const auto only = character_named(named);
    if (!only) return std::nullopt;
    return *only == c;
  }
  const auto low = member(pattern, at);
  if (!low) return std::nullopt;
  if (byte_at(pattern, at) != '-' || at + 1 >= pattern.size() || pattern[at + 1] == ']') return *low == c;
  const auto high = member(pattern, ++at);
  if (!high) return std::nullopt;
  return *low <= c && c <= *high;
}

// Matches a bracket expression, and advances `at` from the position after the [ to the position after the ]. Returns
// nullopt if there is no ].
std::optional<bool> matches_bracket(std::string_view pattern, std::size_t& at, char32_t c) {
  const bool inverted = byte_at(pattern, at) == '!' || byte_at(pattern, at) == '^';
  if (inverted) ++at;
  bool found = false;
  bool impossible = false;
  for (bool first = true; first || byte_at(pattern, at) != ']'; first = false) {
    if (at >= pattern.size()) return std::nullopt;
    const auto holds = member_holds(pattern, at, c);
    impossible |= !holds;
    found |= holds.value_or(false);
  }
  ++at;
  return !impossible && found != inverted;
}

bool matches_one(std::string_view pattern, std::size_t& at, char32_t c) {
  const char32_t wanted = next_character(pattern, at);
  if (wanted == '?') return true;
  if (wanted != '[') return wanted == c;
  std::size_t end = at;
  const auto result = matches_bracket(pattern, end, c);
  if (!result) return c == '[';  // an ordinary character
  at = end;
  return *result;
}

}  // namespace

bool matches(std::string_view pattern, std::string_view text) {
  constexpr std::size_t kNone = std::string::npos;
  std::size_t at = 0;
  std::size_t begin = 0;
  std::size_t star = kNone;  // position after the last *, and the end of what it has consumed so far
  std::size_t taken = 0;
  while (begin < text.size()) {
    if (at < pattern.size() && pattern[at] == '*') {
      star = ++at;
      taken = begin;
      continue;
    }
    std::size_t next = begin;
    if (at < pattern.size() && matches_one(pattern, at, next_character(text, next))) {
      begin = next;
      continue;
    }
    if (star == kNone) return false;
    at = star;  // let the * consume one more character
    (void)next_character(text, taken);
    begin = taken;
  }
  while (at < pattern.size() && pattern[at] == '*') ++at;
  return at == pattern.size();
}

std::string fault_of_pattern(std::string_view pattern) {
  for (std::size_t at = 0; at < pattern.size(); ++at) {
    if (pattern[at] != '[') continue;
    const std::size_t open = at++;
    if (at < pattern.size() && (pattern[at] == '!' || pattern[at] == '^')) ++at;
    bool first = true;  // a leading ] is an ordinary member
    while (at < pattern.size() && (first || pattern[at] != ']')) {
      const Member member = member_at(pattern, at);
      if (!member.known) return formatted("unknown class {}", shown(pattern.substr(at, member.end - at), 40));
      first = false;
      at = member.end;
    }
    if (at >= pattern.size()) return formatted("the [ at byte {} is not closed; write [[] to match a [", open);
  }
  return {};
}

}  // namespace cli
