// SPDX-License-Identifier: Apache-2.0
#include "cursor.hpp"

#include <algorithm>

#include "refusal.hpp"

namespace cli::legacy {

void Cursor::require(std::uint64_t n) const {
  if (n > left()) refuse(offset(), "ends {} bytes on, where {} are expected", left(), n);
}

// Returns n bytes from the current position, at most as many as the buffer has.
const unsigned char* Cursor::buffered(std::size_t n) {
  require(n);
  if (at_ < buffer_begin_ || at_ - buffer_begin_ > buffer_size_ || buffer_size_ - (at_ - buffer_begin_) < n) {
    buffer_begin_ = at_;
    buffer_size_ = static_cast<std::size_t>(std::min<std::uint64_t>(buffer_.size(), left()));
    input_.read(at_, buffer_.data(), buffer_size_);
  }
  return buffer_.data() + (at_ - buffer_begin_);
}

std::uint64_t Cursor::number(std::size_t bytes) {
  const unsigned char* from = buffered(bytes);
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < bytes; ++i) value |= std::uint64_t{from[i]} << (8 * i);
  at_ += bytes;
  return value;
}

std::string Cursor::text(std::uint64_t n) {
  require(n);
  if (n > kLongestText) refuse(offset(), "has a text of {} bytes, {} are the limit", n, kLongestText);
  std::string value(static_cast<std::size_t>(n), '\0');
  if (n <= buffer_.size()) {
    std::copy_n(buffered(value.size()), value.size(), value.data());
  } else {
    input_.read(at_, value.data(), value.size());
  }
  at_ += n;
  return value;
}

std::string Cursor::line() {
  const std::uint64_t begin = offset();
  std::string value;
  for (char c = static_cast<char>(u8()); c != '\n'; c = static_cast<char>(u8())) {
    if (value.size() == kLongestLine) refuse(begin, "has a line of more than {} bytes", kLongestLine);
    value.push_back(c);
  }
  return value;
}

void Cursor::skip(std::uint64_t n) {
  require(n);
  at_ += n;
}

}  // namespace cli::legacy
