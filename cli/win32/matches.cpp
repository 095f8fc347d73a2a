// What fnmatch() says in the locale "C", of patterns in which fault_of_pattern() finds no fault.
// SPDX-License-Identifier: Apache-2.0
#include <cctype>
#include <optional>
#include <string>
#include <string_view>

#include "pattern.hpp"

namespace cli {
namespace {

bool is_in_class(std::string_view name, int c) {
  struct Class {
    std::string_view name;
    int (*holds)(int);
  };
  const Class classes[] = {{"alnum", std::isalnum}, {"alpha", std::isalpha}, {"blank", std::isblank},
                           {"cntrl", std::iscntrl}, {"digit", std::isdigit}, {"graph", std::isgraph},
                           {"lower", std::islower}, {"print", std::isprint}, {"punct", std::ispunct},
                           {"space", std::isspace}, {"upper", std::isupper}, {"xdigit", std::isxdigit}};
  for (const Class& known : classes) {
    if (known.name == name) return known.holds(c) != 0;
  }
  return false;
}

// What [:, [. or [= opens at `at`, up to its end; empty where it is none, and the [ is an ordinary member.
std::string_view named_at(std::string_view pattern, std::size_t at, char kind) {
  if (pattern.substr(at, 2) != std::string{'[', kind}) return {};
  const std::size_t close = pattern.find(std::string{kind, ']'}, at + 2);
  return close == pattern.npos ? std::string_view() : pattern.substr(at, close + 2 - at);
}

// One byte of a bracket expression, also as [.c.]; `at` moves behind it. nullopt for a name of more than one byte, which
// no byte fits.
std::optional<unsigned char> member(std::string_view pattern, std::size_t& at) {
  const std::string_view named = named_at(pattern, at, '.');
  const std::size_t place = named.empty() ? at : at + 2;
  at += named.empty() ? 1 : named.size();
  if (!named.empty() && named.size() != 5) return std::nullopt;
  return static_cast<unsigned char>(pattern[place]);
}

char byte_at(std::string_view pattern, std::size_t at) { return at < pattern.size() ? pattern[at] : '\0'; }

// Whether the member that begins at `at` holds c; `at` moves behind it.
std::optional<bool> member_holds(std::string_view pattern, std::size_t& at, unsigned char c) {
  if (const std::string_view named = named_at(pattern, at, ':'); !named.empty()) {
    at += named.size();
    return is_in_class(named.substr(2, named.size() - 4), c);
  }
  if (const std::string_view named = named_at(pattern, at, '='); !named.empty()) {
    at += named.size();
    if (named.size() != 5) return std::nullopt;
    return static_cast<unsigned char>(named[2]) == c;
  }
  const auto low = member(pattern, at);
  if (!low) return std::nullopt;
  if (byte_at(pattern, at) != '-' || at + 1 >= pattern.size() || pattern[at + 1] == ']') return *low == c;
  const auto high = member(pattern, ++at);
  if (!high) return std::nullopt;
  return *low <= c && c <= *high;
}

// `at` is behind the [, and moves behind the ]. nullopt if there is no ].
std::optional<bool> fits_bracket(std::string_view pattern, std::size_t& at, unsigned char c) {
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

bool fits_one(std::string_view pattern, std::size_t& at, char c) {
  const char wanted = pattern[at++];
  if (wanted == '?') return true;
  if (wanted != '[') return wanted == c;
  std::size_t end = at;
  const auto fits = fits_bracket(pattern, end, static_cast<unsigned char>(c));
  if (!fits) return c == '[';  // stands for itself
  at = end;
  return *fits;
}

}  // namespace

bool matches(const std::string& pattern, const std::string& text) {
  constexpr std::size_t kNone = std::string::npos;
  std::size_t at = 0;
  std::size_t begin = 0;
  std::size_t star = kNone;  // behind the last *, and what it has taken by now
  std::size_t taken = 0;
  while (begin < text.size()) {
    if (at < pattern.size() && pattern[at] == '*') {
      star = ++at;
      taken = begin;
      continue;
    }
    if (at < pattern.size() && fits_one(pattern, at, text[begin])) {
      ++begin;
      continue;
    }
    if (star == kNone) return false;
    at = star;  // the * takes one byte more
    begin = ++taken;
  }
  while (at < pattern.size() && pattern[at] == '*') ++at;
  return at == pattern.size();
}

}  // namespace cli
