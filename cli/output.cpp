// Standard output through the C library, which both systems have.
// SPDX-License-Identifier: Apache-2.0
#include "output.hpp"

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <iterator>

#include <fmt/format.h>

#include "failure.hpp"
#include "system.hpp"

namespace cli {

void Output::write(std::string_view text) {
  if (buffer_.size() + text.size() < kFlushAt) {
    buffer_ += text;
    return;
  }
  flush();
  put(text);
}

void Output::write_number(std::uint64_t number) {
  std::array<char, 20> digits{};  // of 2^64 - 1
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  write({digits.data(), static_cast<std::size_t>(end - digits.data())});
}

void Output::print_text(fmt::string_view text, fmt::format_args args) {
  fmt::vformat_to(std::back_inserter(buffer_), text, args);
  if (buffer_.size() >= kFlushAt) flush();
}

void Output::flush() {
  put(buffer_);
  buffer_.clear();
}

void Output::put(std::string_view text) const {
  if (place_) return place_(text);
  errno = 0;
  const std::size_t written = std::fwrite(text.data(), 1, text.size(), stdout);
  if (written == text.size() && std::fflush(stdout) == 0) return;
  if (errno == EPIPE && readers_may_leave()) throw Failure{kSuccess, ""};
  throw Failure{kUnreadable, std::string("standard output: ") + std::strerror(errno)};
}

}  // namespace cli
