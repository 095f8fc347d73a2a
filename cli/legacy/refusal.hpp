// What a reader of a legacy checkpoint throws when it does not take the bytes: the place, and one line that names them.
//
// The readers know no path. Whoever called them makes a Failure of it (failure_in), with the file that was read.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "../failure.hpp"

namespace cli::legacy {

constexpr std::uint64_t kNowhere = UINT64_MAX;

struct Refusal {
  std::uint64_t offset = kNowhere;  // in the file; inside an entry that is compressed, in its content
  std::string message;
  ExitCode code = kBadFile;
};

template <class... Args>
[[noreturn]] void refuse(std::uint64_t offset, fmt::format_string<Args...> text, Args&&... args) {
  throw Refusal{offset, fmt::format(text, std::forward<Args>(args)...)};
}

// For what the file may hold and safetensors cannot: complex128, quantised types.
template <class... Args>
[[noreturn]] void refuse_type(std::uint64_t offset, fmt::format_string<Args...> text, Args&&... args) {
  throw Refusal{offset, fmt::format(text, std::forward<Args>(args)...), kUsage};
}

// "model.bin: global os.system is no part of a checkpoint (byte 93)"
inline Failure failure_in(const std::string& path, const Refusal& refusal) {
  std::string line = path + ": " + refusal.message;
  if (refusal.offset != kNowhere) line += fmt::format(" (byte {})", refusal.offset);
  return {refusal.code, line};
}

}  // namespace cli::legacy
