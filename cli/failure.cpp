// SPDX-License-Identifier: Apache-2.0
#include "failure.hpp"

#include <cstdio>

#include "system.hpp"
#include "text.hpp"

namespace cli {
namespace {

// Returns whether a message already names the offset: "byte 8", or "8 of 9 bytes" for a truncated file.
bool says_offset(std::string_view message, std::uint64_t offset) {
  const auto is_digit_at = [&](std::size_t i) { return i < message.size() && message[i] >= '0' && message[i] <= '9'; };
  const std::string words = formatted("byte {}", offset);
  const std::size_t at = message.find(words);
  if (at != message.npos && !is_digit_at(at + words.size())) return true;
  const std::size_t share = message.find(formatted("{} of ", offset));
  return share != message.npos && message.find(" bytes", share) != message.npos &&
         (share == 0 || !is_digit_at(share - 1));
}

// Returns whether a message already names the path. A message about a file begins with the quoted path; a message about
// a shard contains it. The check is strict, because a tensor may have the same name as the path.
bool says_path(std::string_view message, const std::string& path) {
  if (message.starts_with("'") || message.starts_with("a file next to '")) return true;
  if (message.ends_with(" in " + path)) return true;
  for (const std::string& words : {"'" + path + "'", "'" + path + "/"}) {
    const std::size_t at = message.find(words);
    if (at != message.npos && !message.substr(0, at).ends_with("tensor ")) return true;
  }
  return false;
}

// Restores a long path, whose middle the library omits in messages because of limited space.
std::string with_whole_path(const std::string& message, const std::string& path) {
  const std::size_t cut = message.find("...");
  const std::size_t end = cut == message.npos ? cut : message.find('\'', cut);
  if (!message.starts_with("'") || end == message.npos) return message;
  const std::string_view front = std::string_view(message).substr(1, cut - 1);
  const std::string_view back = std::string_view(message).substr(cut + 3, end - cut - 3);
  const bool is_cut = path.size() > front.size() + back.size() && path.starts_with(front) && path.ends_with(back);
  return is_cut ? "'" + path + message.substr(end) : message;
}

}  // namespace

// A 3xx status with a system error, for example a missing shard, does not mean that a file is invalid. ST_ERR_STATE means
// that another process has locked or changed the file.
ExitCode exit_code_of(const safetensors::Error& error) {
  switch (error.status() / 100) {
    case 0: return kSuccess;
    case 1: return error.status() == ST_ERR_STATE ? kUnreadable : kUsage;
    case 2: return kUnreadable;
    case 3: return error.os_error() != 0 ? kUnreadable : kBadFile;
    default: return kDefect;
  }
}

ExitCode worse_of(ExitCode a, ExitCode b) {
  const auto rank = [](ExitCode code) { return code == kSuccess ? 0 : code == kDiffers ? 1 : 1 + int{code}; };
  return rank(a) < rank(b) ? b : a;
}

Failure closed_pipe() {
  end_by_closed_pipe();
  return {kUnreadable, ""};
}

Failure failure_in(const std::string& path, const safetensors::Error& error) {
  if (error.status() == ST_ERR_WRITE && is_closed_pipe(error.os_error()) && readers_may_leave()) return closed_pipe();
  const std::string message = error.what();
  std::string line = says_path(message, path) ? with_whole_path(message, path) : path + ": " + message;
  if (error.offset() && !says_offset(message, *error.offset())) {
    line += formatted(" (byte {}, {})", *error.offset(), error.status_name());
  } else {
    line += formatted(" ({})", error.status_name());
  }
  return {exit_code_of(error), line};
}

ExitCode complain(const Failure& failure) {
  // After an interruption, the failure is only a consequence, so it is not printed.
  if (!failure.line.empty() && !is_interrupted())
    std::fprintf(stderr, "safetensors: %s\n", printable(failure.line).c_str());
  return failure.code;
}

}  // namespace cli
