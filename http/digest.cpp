// SPDX-License-Identifier: Apache-2.0
#include "digest.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace st::http {

namespace {

constexpr std::size_t kDigestBytes = 32;
constexpr std::size_t kDigits = 2 * kDigestBytes;

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c | 32) : c; }

std::string lower(std::string_view text) {
  std::string changed(text);
  std::transform(changed.begin(), changed.end(), changed.begin(), [](char c) { return lower(c); });
  return changed;
}

// Returns "" unless the text is the base64 of 32 bytes: 43 characters and one "=".
std::string digits_of_base64(std::string_view text) {
  constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  constexpr std::string_view kHex = "0123456789abcdef";
  constexpr std::size_t kLetterCount = (kDigestBytes * 8 + 5) / 6;
  if (text.size() != kLetterCount + 1 || text.back() != '=') return {};
  std::string digits;
  std::uint32_t bits = 0;
  unsigned count = 0;
  for (const char letter : text.substr(0, kLetterCount)) {
    const std::size_t value = kLetters.find(letter);
    if (value == kLetters.npos) return {};
    bits = bits << 6 | static_cast<std::uint32_t>(value);
    count += 6;
    for (; count >= 4 && digits.size() < kDigits; count -= 4) digits += kHex[bits >> (count - 4) & 15];
  }
  return digits;
}

// In a list such as "sha-256=:BASE64:, sha-512=:BASE64:". Digest lacks the colons.
std::string in_list(std::string_view list) {
  constexpr std::string_view kName = "sha-256=";
  while (!list.empty()) {
    const std::size_t end = std::min(list.find(','), list.size());
    std::string_view item = list.substr(0, end);
    list.remove_prefix(std::min(end + 1, list.size()));
    item.remove_prefix(std::min(item.find_first_not_of(" \t"), item.size()));
    if (lower(item.substr(0, kName.size())) != kName) continue;
    item = item.substr(kName.size(), item.find_first_of(" \t;", kName.size()) - kName.size());
    if (item.size() > 2 && item.front() == ':' && item.back() == ':') item = item.substr(1, item.size() - 2);
    return digits_of_base64(item);
  }
  return {};
}

// "DIGITS", with quotes. A short file of a hub has another hash there.
std::string in_etag(std::string_view etag) {
  if (etag.size() != kDigits + 2 || etag.front() != '"' || etag.back() != '"') return {};
  const std::string digits = lower(etag.substr(1, kDigits));
  return digits.find_first_not_of("0123456789abcdef") == digits.npos ? digits : std::string();
}

}  // namespace

std::string sha256_in(std::string_view name, std::string_view value) {
  const std::string known = lower(name);
  if (known == "repr-digest" || known == "digest") return in_list(value);
  if (known == "x-linked-etag") return in_etag(value);
  return {};
}

}  // namespace st::http
