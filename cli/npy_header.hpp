// The header of a .npy file, numpy's format for one array. Header-only, because the command and its importers are two
// libraries.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "text.hpp"

namespace cli {

struct NpyError {
  std::string message;
};

struct NpyHeader {
  std::string type;  // for example "<f4"; "V" for records
  bool fortran_order = false;
  std::vector<std::uint64_t> shape;
};

// Parses the header of a .npy: a Python dictionary with three keys.
class NpyLiteral {
 public:
  explicit NpyLiteral(std::string_view text) : text_(text) {}

  bool take(std::string_view token) {
    skip_spaces();
    if (!text_.starts_with(token)) return false;
    text_.remove_prefix(token.size());
    return true;
  }
  void expect(std::string_view token) {
    if (!take(token)) fail(token);
  }
  std::string_view string() {
    expect("'");
    const std::size_t end = text_.find('\'');
    if (end == text_.npos) fail("'");
    const std::string_view value = text_.substr(0, end);
    text_.remove_prefix(end + 1);
    return value;
  }
  std::uint64_t number() {
    skip_spaces();
    std::uint64_t value = 0;
    const auto result = std::from_chars(text_.data(), text_.data() + text_.size(), value);
    if (result.ec != std::errc()) fail("a size");
    text_.remove_prefix(static_cast<std::size_t>(result.ptr - text_.data()));
    take("L");  // Python 2's suffix
    return value;
  }
  bool boolean() {
    if (take("True")) return true;
    expect("False");
    return false;
  }
  std::vector<std::uint64_t> tuple() {
    std::vector<std::uint64_t> values;
    expect("(");
    while (!take(")")) {
      values.push_back(number());
      if (take(")")) break;
      expect(",");
    }
    return values;
  }
  bool at_end() {
    skip_spaces();
    return text_.empty();
  }
  [[noreturn]] void fail(std::string_view expected) const {
    throw NpyError{formatted("numpy header: expected {} before '{}'", expected, text_.substr(0, 20))};
  }

 private:
  void skip_spaces() { text_.remove_prefix(std::min(text_.find_first_not_of(" \n"), text_.size())); }

  std::string_view text_;
};

inline NpyHeader parse_npy_header(std::string_view text) {
  NpyHeader header;
  NpyLiteral literal(text);
  unsigned seen = 0;
  literal.expect("{");
  while (!literal.take("}")) {
    const std::string_view key = literal.string();
    literal.expect(":");
    unsigned bit = 0;
    if (key == "descr") {
      if (literal.take("[")) {
        header.type = "|V";
        return header;  // ignore the rest
      }
      header.type = literal.string();
      bit = 1;
    } else if (key == "fortran_order") {
      header.fortran_order = literal.boolean();
      bit = 2;
    } else if (key == "shape") {
      header.shape = literal.tuple();
      bit = 4;
    }
    if (bit == 0 || (seen & bit) != 0) throw NpyError{formatted("numpy header: unknown or duplicate key '{}'", key)};
    seen |= bit;
    if (!literal.take(",")) {
      literal.expect("}");
      break;
    }
  }
  if (seen != 7 || !literal.at_end()) throw NpyError{"numpy header: incomplete, or text after its end"};
  return header;
}

// Reads the header, up to the first element. read(to, n) returns how many of n bytes there were.
template <class Read>
NpyHeader read_npy_header(const Read& read) {
  constexpr std::string_view kMagic = "\x93NUMPY";
  constexpr std::size_t kLongestHeader = 1 << 20;
  const auto read_all = [&](void* to, std::size_t n) {
    if (read(to, n) != n) throw NpyError{"numpy header: incomplete"};
  };
  std::array<unsigned char, 8> begin{};
  read_all(begin.data(), begin.size());
  const auto same = [](char a, unsigned char b) { return static_cast<unsigned char>(a) == b; };
  if (!std::equal(kMagic.begin(), kMagic.end(), begin.begin(), same)) throw NpyError{"not a numpy array"};
  const unsigned version = begin[6];
  if (version < 1 || version > 3)
    throw NpyError{formatted("unsupported .npy version {} (supported: 1, 2, 3)", version)};
  std::array<unsigned char, 4> length{};
  read_all(length.data(), version == 1 ? 2 : 4);
  const std::size_t bytes =
      length[0] | std::size_t{length[1]} << 8 | std::size_t{length[2]} << 16 | std::size_t{length[3]} << 24;
  if (bytes > kLongestHeader) throw NpyError{formatted("numpy header: {} bytes (limit: {})", bytes, kLongestHeader)};
  std::string text(bytes, '\0');
  read_all(text.data(), text.size());
  return parse_npy_header(text);
}

}  // namespace cli
