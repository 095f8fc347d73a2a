// The error that importers throw: a message and a byte offset.
//
// Importers do not know the path of their file. import_file() and import_index() catch an ImportError and throw a
// Failure with the path.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>

#include <fmt/core.h>

#include "failure.hpp"
#include "text.hpp"

namespace cli::importer {

constexpr std::uint64_t kNoOffset = UINT64_MAX;

struct ImportError {
  ExitCode code = kBadFile;
  std::string message;
  std::uint64_t offset = kNoOffset;  // in the file; for a compressed entry, in its unpacked content
};

template <class... Args>
[[noreturn]] void fail(std::uint64_t offset, fmt::format_string<Args...> text, const Args&... args) {
  throw ImportError{kBadFile, st::formatted_text(text, fmt::make_format_args(args...)), offset};
}

// For a file that another process changes while it is read.
[[noreturn]] inline void fail_changed(const char* how) {
  throw ImportError{kUnreadable, formatted("file was {} while being read", how)};
}

// For valid contents that safetensors cannot store, such as complex128 and quantized types.
template <class... Args>
[[noreturn]] void fail_unsupported(std::uint64_t offset, fmt::format_string<Args...> text, const Args&... args) {
  throw ImportError{kUsage, st::formatted_text(text, fmt::make_format_args(args...)), offset};
}

// For a failed system call that has set errno.
[[noreturn]] inline void fail_os(const std::string& what = {}) {
  const std::string error = std::strerror(errno);
  throw ImportError{kUnreadable, what.empty() ? error : what + ": " + error};
}

// Returns a line such as "model.bin: pickle names os.system, which … (byte 93)".
inline Failure failure_in(const std::string& path, const ImportError& error) {
  constexpr std::size_t kLongest = 4000;  // names in the message come from the file
  std::string line = path + ": " + error.message.substr(0, kLongest);
  if (error.message.size() > kLongest) line += "...";
  if (error.offset != kNoOffset) line += formatted(" (byte {})", error.offset);
  return {error.code, line};
}

}  // namespace cli::importer
