// Standard output through the C library, which both systems have.
// SPDX-License-Identifier: Apache-2.0
#include "output.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "failure.hpp"

namespace cli {

void Output::write(std::string_view text) {
  buffer_.append(text);
  if (buffer_.size() >= kFlushAt) flush();
}

void Output::flush() {
  errno = 0;
  const std::size_t written = std::fwrite(buffer_.data(), 1, buffer_.size(), stdout);
  if (written == buffer_.size() && std::fflush(stdout) == 0) {
    buffer_.clear();
    return;
  }
  // Only seen where the caller has SIGPIPE ignored; otherwise the signal ends the process before.
  if (errno == EPIPE) throw Failure{kSuccess, ""};
  throw Failure{kUnreadable, std::string("standard output: ") + std::strerror(errno)};
}

}  // namespace cli
