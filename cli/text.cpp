// SPDX-License-Identifier: Apache-2.0
#include "text.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <span>

namespace cli {
namespace {

struct CodePoints {
  char32_t first;
  char32_t last;
};

// Characters that a terminal interprets or does not show: control (Cc) and format characters (Cf), line separators (Zl,
// Zp), surrogates and variation selectors. The ranges in the last planes include unassigned characters.
constexpr std::array<CodePoints, 24> kUnsafe{{
    {0x00, 0x1F},       {0x7F, 0x9F},  // 9B by itself begins an escape sequence
    {0xAD, 0xAD},       {0x0600, 0x0605},   {0x061C, 0x061C},   {0x06DD, 0x06DD},   {0x070F, 0x070F},
    {0x0890, 0x0891},   {0x08E2, 0x08E2},   {0x180E, 0x180E},   {0x200B, 0x200F},   {0x2028, 0x202E},
    {0x2060, 0x206F},   {0xFE00, 0xFE0F},   {0xFEFF, 0xFEFF},   {0xFFF9, 0xFFFB},   {0xD800, 0xDFFF},
    {0x110BD, 0x110BD}, {0x110CD, 0x110CD}, {0x13430, 0x1343F}, {0x1BCA0, 0x1BCA3}, {0x1D173, 0x1D17A},
    {0xE0000, 0xE0FFF},
}};

bool is_unsafe(char32_t c) {
  for (const CodePoints& range : kUnsafe) {
    if (c >= range.first && c <= range.last) return true;
  }
  return false;
}

struct Character {
  char32_t code = 0;
  std::size_t bytes = 1;
  bool valid = false;
};

unsigned unsigned_at(std::string_view text, std::size_t i) { return static_cast<unsigned char>(text[i]); }

// Names in files are UTF-8, but paths and arguments may be any bytes.
Character first_character(std::string_view text) {
  const unsigned lead = unsigned_at(text, 0);
  if (lead < 0x80) return {lead, 1, true};
  const std::size_t bytes = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < bytes) return {};
  char32_t code = lead & (0xFFU >> (bytes + 1));
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((unsigned_at(text, i) & 0xC0U) != 0x80U) return {};
    code = (code << 6) | (unsigned_at(text, i) & 0x3FU);
  }
  constexpr std::array<char32_t, 5> kSmallest{0, 0, 0x80, 0x800, 0x10000};
  if (code < kSmallest[bytes] || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) return {};
  return {code, bytes, true};
}

std::string escaped(const Character& c, std::string_view raw) {
  if (!c.valid) return formatted("\\x{:02x}", unsigned_at(raw, 0));
  if (c.code == '\n') return "\\n";
  if (c.code == '\t') return "\\t";
  if (c.code == '\r') return "\\r";
  const auto code = static_cast<std::uint32_t>(c.code);
  return code > 0xFFFF ? formatted("\\U{:08x}", code) : formatted("\\u{:04x}", code);
}

// Fast path: most names are plain ASCII, and a file may have a hundred thousand.
bool is_plain_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= 0x20 && c <= 0x7E; });
}

struct Shown {
  std::string text;
  bool escapes = false;
  bool cut = false;
};

Shown show_characters(std::string_view text, std::size_t limit, bool in_quotes) {
  Shown out;
  for (std::size_t i = 0, n = 0; i < text.size(); ++n) {
    if (n == limit) {
      out.cut = true;
      break;
    }
    const Character c = first_character(text.substr(i));
    if (!c.valid || is_unsafe(c.code)) {
      out.text += escaped(c, text.substr(i));
      out.escapes = true;
    } else {
      if (in_quotes && (c.code == '"' || c.code == '\\')) out.text += '\\';
      out.text += text.substr(i, c.bytes);
    }
    i += c.bytes;
  }
  return out;
}

// Returns the edit distance, counting inserted, removed, replaced and swapped bytes. If it exceeds `most`, returns any
// number above `most`.
std::size_t distance(std::string_view a, std::string_view b, std::size_t most) {
  if (std::max(a.size(), b.size()) - std::min(a.size(), b.size()) > most) return most + 1;
  std::vector<std::size_t> before(b.size() + 1);
  std::vector<std::size_t> last(b.size() + 1);
  std::vector<std::size_t> now(b.size() + 1);
  std::iota(last.begin(), last.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    now[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t other = a[i - 1] == b[j - 1] ? 0 : 1;
      now[j] = std::min({last[j] + 1, now[j - 1] + 1, last[j - 1] + other});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) now[j] = std::min(now[j], before[j - 2] + 1);
    }
    if (*std::min_element(now.begin(), now.end()) > most) return most + 1;
    std::swap(before, last);
    std::swap(last, now);
  }
  return last[b.size()];
}

}  // namespace

std::string printable(std::string_view text) {
  if (is_plain_ascii(text)) return std::string(text);
  return show_characters(text, text.size(), false).text;
}

bool is_utf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const Character c = first_character(text.substr(i));
    if (!c.valid) return false;
    i += c.bytes;
  }
  return true;
}

char32_t next_character(std::string_view text, std::size_t& at) {
  const Character c = first_character(text.substr(at));
  const char32_t code = c.valid ? c.code : 0x110000 + unsigned_at(text, at);
  at += c.valid ? c.bytes : 1;
  return code;
}

std::string lower_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](char c) { return static_cast<char>(c >= 'A' && c <= 'Z' ? c | 32 : c); });
  return text;
}

std::string shown(std::string_view text, std::size_t limit) {
  const bool mistakable = text.empty() || text.front() == ' ' || text.back() == ' ' || text.front() == '"';
  if (!mistakable && text.size() <= limit && is_plain_ascii(text)) return std::string(text);
  Shown plain = show_characters(text, limit, false);
  const std::string tail = plain.cut ? formatted(" … ({} bytes)", grouped(text.size())) : "";
  if (!mistakable && !plain.escapes) return plain.text + tail;
  return '"' + show_characters(text, limit, true).text + '"' + tail;
}

std::size_t width_of(std::string_view text) {
  const bool ascii = std::all_of(text.begin(), text.end(), [](char c) { return static_cast<signed char>(c) >= 0; });
  if (ascii) return text.size();
  constexpr std::size_t kPadded = 1000;
  return text.size() + kPadded - formatted("{:<{}}", text, kPadded).size();
}

std::string shape_text(safetensors::View<std::uint64_t> shape) {
  constexpr std::size_t kWidest = 32;
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const std::string dim = std::to_string(shape[i]);
    const std::string_view separator = i == 0 ? "" : ", ";
    if (text.size() + separator.size() + dim.size() > kWidest) return text + formatted(", … {} dims]", shape.size());
    text.append(separator).append(dim);
  }
  return text + "]";
}

std::string human_bytes(std::uint64_t bytes) {
  static constexpr std::array<std::string_view, 7> kUnits{" B", " kB", " MB", " GB", " TB", " PB", " EB"};
  return st::scaled(bytes, kUnits);
}

std::string human_count(std::uint64_t count) {
  static constexpr std::array<std::string_view, 5> kUnits{"", " K", " M", " B", " T"};
  return st::scaled(count, kUnits);
}

std::string grouped(std::uint64_t count) {
  std::string digits = std::to_string(count);
  for (std::size_t i = digits.size(); i > 3; i -= 3) digits.insert(i - 3, 1, ',');
  return digits;
}

std::string counted(std::uint64_t count, std::string_view thing) {
  return grouped(count).append(" ").append(thing).append(count == 1 ? "" : "s");
}

std::string hex(const std::vector<unsigned char>& bytes) {
  std::string digits;
  for (const unsigned char byte : bytes) digits += formatted("{:02x}", byte);
  return digits;
}

std::string did_you_mean(std::string_view typed, const std::vector<std::string>& words) {
  constexpr std::size_t kLongest = 100;  // because the time is quadratic
  constexpr std::size_t kMostWords = 10'000;
  if (typed.empty() || typed.size() > kLongest) return {};
  std::size_t nearest = std::clamp<std::size_t>(typed.size() / 3, 1, 4) + 1;
  const std::string* found = nullptr;
  for (std::size_t i = 0; i < std::min(words.size(), kMostWords); ++i) {
    const std::string& word = words[i];
    const std::size_t d = distance(typed, word, nearest - 1);
    if (d >= nearest) continue;
    nearest = d;
    found = &word;
  }
  return found == nullptr ? "" : formatted(", did you mean '{}'?", printable(*found));
}

}  // namespace cli
