// From the library's error to one line and an exit code.
// SPDX-License-Identifier: Apache-2.0
#include "failure.hpp"

#include <fmt/format.h>

namespace cli {

ExitCode exit_code_of(st_status status) {
  switch (status / 100) {
    case 0: return kSuccess;
    case 1: return kUsage;
    case 2: return kUnreadable;
    case 3: return kBadFile;
    default: return kDefect;
  }
}

namespace {

bool says_byte(std::string_view message, std::uint64_t offset) {
  const std::string words = fmt::format("byte {}", offset);
  const std::size_t at = message.find(words);
  if (at == message.npos) return false;
  const std::size_t next = at + words.size();
  return next == message.size() || message[next] < '0' || message[next] > '9';
}

}  // namespace

Failure failure_in(const std::string& path, const safetensors::Error& error) {
  const std::string message = error.what();
  std::string line;
  // Some messages begin with the path already: those about opening, and about one shard of many.
  if (message.find(path) == std::string::npos) line = path + ": ";
  line += message;
  if (error.offset() && !says_byte(message, *error.offset())) {
    line += fmt::format(" (byte {}, {})", *error.offset(), error.status_name());
  } else {
    line += fmt::format(" ({})", error.status_name());
  }
  return {exit_code_of(error.status()), line};
}

}  // namespace cli
