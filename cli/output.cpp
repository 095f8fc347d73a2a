// Standard output through the C library, which both systems have.
// SPDX-License-Identifier: Apache-2.0
#include "output.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "failure.hpp"

namespace cli {

void Output::write(std::string_view text) {
  if (buffer_.size() + text.size() < kFlushAt) return buffer_.append(text);
  flush();
  put(text);
}

void Output::flush() {
  put({buffer_.data(), buffer_.size()});
  buffer_.clear();
}

void Output::put(std::string_view text) const {
  if (place_) return place_(text);
  errno = 0;
  const std::size_t written = std::fwrite(text.data(), 1, text.size(), stdout);
  if (written == text.size() && std::fflush(stdout) == 0) return;
  // This happens only if the caller ignores SIGPIPE; otherwise the signal has ended the process.
  if (errno == EPIPE) throw Failure{kSuccess, ""};
  throw Failure{kUnreadable, std::string("standard output: ") + std::strerror(errno)};
}

}  // namespace cli
