// What fnmatch() says in the locale "C", of patterns in which fault_of_pattern() finds no fault.
// SPDX-License-Identifier: Apache-2.0
#include <cctype>
#include <string_view>

#include "pattern.hpp"

namespace cli {
namespace {

bool is_in_class(std::string_view name, int c) {
  struct Class {
    std::string_view name;
    int (*holds)(int);
  };
  constexpr Class kClasses[] = {{"alnum", std::isalnum}, {"alpha", std::isalpha}, {"blank", std::isblank},
                                {"cntrl", std::iscntrl}, {"digit", std::isdigit}, {"graph", std::isgraph},
                                {"lower", std::islower}, {"print", std::isprint}, {"punct", std::ispunct},
                                {"space", std::isspace}, {"upper", std::isupper}, {"xdigit", std::isxdigit}};
  for (const Class& known : kClasses) {
    if (known.name == name) return known.holds(c) != 0;
  }
  return false;
}

// One byte of a bracket expression, also as [.c.] or [=c=]; `at` moves behind it.
unsigned char member(std::string_view pattern, std::size_t& at) {
  const bool named = pattern[at] == '[' && at + 4 < pattern.size() && (pattern[at + 1] == '.' || pattern[at + 1] == '=');
  const auto byte = static_cast<unsigned char>(pattern[named ? at + 2 : at]);
  at += named ? 5 : 1;
  return byte;
}

// `at` is behind the [, and moves behind the ].
bool fits_bracket(std::string_view pattern, std::size_t& at, unsigned char c) {
  const bool inverted = pattern[at] == '!' || pattern[at] == '^';
  if (inverted) ++at;
  bool found = false;
  for (bool first = true; first || pattern[at] != ']'; first = false) {
    if (pattern.substr(at).starts_with("[:")) {
      const std::size_t end = pattern.find(":]", at + 2);
      found |= is_in_class(pattern.substr(at + 2, end - at - 2), c);
      at = end + 2;
      continue;
    }
    const unsigned char low = member(pattern, at);
    unsigned char high = low;
    if (pattern[at] == '-' && pattern[at + 1] != ']') high = member(pattern, ++at);
    found |= low <= c && c <= high;
  }
  ++at;
  return found != inverted;
}

bool fits_one(std::string_view pattern, std::size_t& at, char c) {
  const char wanted = pattern[at++];
  if (wanted == '?') return true;
  return wanted == '[' ? fits_bracket(pattern, at, static_cast<unsigned char>(c)) : wanted == c;
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
