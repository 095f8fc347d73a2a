// SPDX-License-Identifier: Apache-2.0
#include "format/bintensors/cursor.hpp"

#include <algorithm>
#include <string>

#include "format/utf8.hpp"

namespace st::format::bintensors {

namespace {

bool is_ascii(std::string_view text) {
  constexpr std::uint64_t kTopBits = 0x8080808080808080;
  std::uint64_t bits = 0;
  if (text.size() < 8) {
    for (const char c : text) bits |= static_cast<unsigned char>(c);
    return bits < 0x80;
  }
  for (std::size_t i = 8; i < text.size(); i += 8) bits |= eight_bytes(text.data() + i - 8);
  bits |= eight_bytes(text.data() + text.size() - 8);  // the last word may overlap the one before
  return (bits & kTopBits) == 0;
}

// A message is UTF-8 itself.
std::string quoted_bytes(std::string_view text) {
  std::string hex;
  for (const char c : text.substr(0, 16)) hex += formatted("{:02x}", static_cast<unsigned char>(c));
  return hex + (text.size() > 16 ? "..." : "");
}

}  // namespace

std::string_view Cursor::string() {
  const std::uint64_t place = offset();
  const std::uint64_t size = number();
  if (size > left()) {
    fail_here(Status::schema, place, formatted("a string of {} bytes, where {} are left", size, left()));
  }
  const std::string_view text(at_, static_cast<std::size_t>(size));
  if (!is_ascii(text) && !is_utf8(text)) {
    fail_here(Status::utf8, offset() + first_not_utf8(text),
              formatted("a string that is not UTF-8: {}", quoted_bytes(text)));
  }
  at_ += size;
  return text;
}

std::uint64_t Cursor::count(std::uint64_t least, std::string_view what) {
  const std::uint64_t place = offset();
  const std::uint64_t n = number();
  if (n > left() / least) {
    fail_here(Status::schema, place, formatted("{} {}, where {} bytes are left", n, what, left()));
  }
  return n;
}

// There are 18,433 names of less than three bytes, and every other takes three at least.
std::size_t Cursor::distinct(std::uint64_t n, std::uint64_t least) const {
  return static_cast<std::size_t>(std::min<std::uint64_t>(n, 18'433 + left() / (least + 3)));
}

void Cursor::fail_here(Status status, std::uint64_t place, std::string_view what) const {
  if (subject_.data() == nullptr) fail_at(status, place, "{}", what);
  fail_at(status, place, "tensor {}: {}", in_quotes(subject_), what);
}

void Cursor::fail_number(const char* at) {
  at_ = at;
  const unsigned first = at == end_ ? 0U : static_cast<unsigned char>(*at);
  if (first > 0xFD) fail_here(Status::schema, offset(), formatted("0x{:02x} where a number begins", first));
  fail_here(Status::schema, offset(), "the header ends too early");
}

}  // namespace st::format::bintensors
