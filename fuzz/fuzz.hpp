// Shared by the targets: the oracle's assertion, and input read as numbers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

extern "C" {
int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
// Optional, if a target needs more than changed bytes. Returns the new size, at most `most`.
std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed);
// Defined by libFuzzer or main.cpp.
std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most);
}

namespace fuzz {

inline void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "broken: %s\n", what);
  std::abort();
}

// Changes a text in place by a function from string to string. Keeps the old text if the new one is too long.
template <class Change>
std::size_t change(std::uint8_t* data, std::size_t size, std::size_t most, const Change& change_text) {
  const std::string text = change_text(std::string(data, data + size));
  if (text.size() > most) return size;
  std::copy(text.begin(), text.end(), data);
  return text.size();
}

// Replaces a string or a number of JSON text by another one of the same text, or changes bytes.
inline std::size_t mutate_json(std::uint8_t* data, std::size_t size, std::size_t most, unsigned seed) {
  if (seed % 2 == 0) return LLVMFuzzerMutate(data, size, most);
  const auto token = [](const std::string& text, std::size_t from) {
    constexpr std::string_view kBetween = "{}[]:, \t\r\n";
    const std::size_t begin = std::min(text.find_first_not_of(kBetween, from), text.size());
    const bool quoted = begin < text.size() && text[begin] == '"';
    const std::size_t end = quoted ? text.find('"', begin + 1) : text.find_first_of(kBetween, begin);
    return std::pair(begin, std::min(end, text.size() - 1) + (quoted ? 1 : 0) - begin);
  };
  return change(data, size, most, [&](std::string text) {
    if (text.empty()) return text;
    const auto [from, from_bytes] = token(text, seed / 2 % text.size());
    const auto [to, to_bytes] = token(text, seed / 7 * 31 % text.size());
    if (from >= text.size() || to >= text.size()) return text;
    return text.replace(to, to_bytes, text.substr(from, from_bytes));
  });
}

// Reads numbers and bytes from the front of the input. After its end, all are 0.
class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : data_(data), left_(size) {}

  std::size_t left() const { return left_; }
  std::uint8_t byte() {
    if (left_ == 0) return 0;
    --left_;
    return *data_++;
  }
  bool flag() { return byte() % 2 != 0; }
  std::size_t below(std::size_t n) { return byte() % n; }
  // Returns small numbers, and often numbers at the edges of 64 bits.
  std::uint64_t number() {
    const std::uint8_t kind = byte();
    if (kind < 160) return kind % 32;
    if (kind < 200) return std::uint64_t{0} - kind % 8;
    if (kind < 224) return (std::uint64_t{1} << byte() % 64) - kind % 2;
    std::uint64_t number = 0;
    for (int i = kind % 8; i >= 0; --i) number = number << 8 | byte();
    return number;
  }
  std::string_view text(std::size_t n) {
    n = std::min(n, left_);
    const std::string_view taken(reinterpret_cast<const char*>(data_), n);
    data_ += n;
    left_ -= n;
    return taken;
  }

 private:
  const std::uint8_t* data_;
  std::size_t left_;
};

}  // namespace fuzz
