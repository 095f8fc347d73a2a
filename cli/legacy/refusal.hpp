// What a reader of a legacy checkpoint throws when it does not take the bytes: the place, and one line that names them.
//
// The readers know no path. Whoever called them makes a Failure of it (failure_in), with the file that was read.
// The values of a message are handed to one function, since fmt::format has all of fmt translated where it is called.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include <fmt/core.h>

#include "failure.hpp"

namespace cli::legacy {

constexpr std::uint64_t kNowhere = UINT64_MAX;

struct Refusal {
  std::uint64_t offset = kNowhere;  // in the file; inside an entry that is compressed, in its content
  std::string message;
  ExitCode code = kBadFile;
};

[[noreturn]] void throw_refusal(ExitCode code, std::uint64_t offset, fmt::string_view text, fmt::format_args args);

template <class... Args>
[[noreturn]] void refuse(std::uint64_t offset, fmt::format_string<Args...> text, const Args&... args) {
  throw_refusal(kBadFile, offset, text, fmt::make_format_args(args...));
}

// For what the file may hold and the command cannot write: complex128, quantised types.
template <class... Args>
[[noreturn]] void refuse_type(std::uint64_t offset, fmt::format_string<Args...> text, const Args&... args) {
  throw_refusal(kUsage, offset, text, fmt::make_format_args(args...));
}

// "model.bin: pickle names os.system, which is no part of a checkpoint; nothing was imported (byte 93)"
Failure failure_in(const std::string& path, const Refusal& refusal);

}  // namespace cli::legacy
