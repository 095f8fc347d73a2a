// SPDX-License-Identifier: Apache-2.0
#include "numpy_header.hpp"

#include <algorithm>
#include <charconv>

#include "refusal.hpp"

namespace cli::legacy {
namespace {

class Literal {
 public:
  Literal(std::string_view text, std::uint64_t offset) : text_(text), offset_(offset) {}

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
    take("L");  // as Python 2 spelled some
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
    refuse(offset_, "numpy header: {} is expected before '{}'", expected, text_.substr(0, 20));
  }

 private:
  void skip_spaces() { text_.remove_prefix(std::min(text_.find_first_not_of(" \n"), text_.size())); }

  std::string_view text_;
  std::uint64_t offset_;
};

}  // namespace

NumpyHeader read_numpy_header(std::string_view text, std::uint64_t offset) {
  NumpyHeader header;
  Literal literal(text, offset);
  unsigned seen = 0;
  literal.expect("{");
  while (!literal.take("}")) {
    const std::string_view key = literal.string();
    literal.expect(":");
    unsigned bit = 0;
    if (key == "descr") {
      if (literal.take("[")) refuse(offset, "numpy header: an array of records, which are no tensors");
      header.type = literal.string();
      bit = 1;
    } else if (key == "fortran_order") {
      header.fortran_order = literal.boolean();
      bit = 2;
    } else if (key == "shape") {
      header.shape = literal.tuple();
      bit = 4;
    }
    if (bit == 0 || (seen & bit) != 0) refuse(offset, "numpy header: key '{}' is unknown or given twice", key);
    seen |= bit;
    if (!literal.take(",")) {
      literal.expect("}");
      break;
    }
  }
  if (seen != 7 || !literal.at_end()) refuse(offset, "numpy header: is not complete, or has more than three keys");
  return header;
}

}  // namespace cli::legacy
