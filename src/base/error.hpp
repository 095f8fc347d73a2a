// The one exception type inside the library, and the one way to throw it.
//
// A fault carries everything that st_error shows: what kind, where in the file, what the system said. It is
// caught in one place only, capi/guard.hpp.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/formatted.hpp"

namespace st {

enum class Status : std::int32_t {
#define ST_STATUS(name, public_name, number) name = (number),
#include "base/statuses.def"
#undef ST_STATUS
};

inline constexpr std::uint64_t kNowhere = UINT64_MAX;

struct Error {
  Status status = Status::internal;
  int os_error = 0;                 // errno or GetLastError(); 0 when the system is not to blame
  std::uint64_t offset = kNowhere;  // absolute, in the file
  std::string message;              // one line
};

// Throws an Error whose message is formatted; with an os_error, the system's own words are appended.
[[noreturn]] void throw_error(Status status, int os_error, std::uint64_t offset, fmt::string_view text,
                              fmt::format_args args);

template <class... Args>
[[noreturn]] void fail(Status status, fmt::format_string<Args...> text, const Args&... args) {
  throw_error(status, 0, kNowhere, text, fmt::make_format_args(args...));
}

template <class... Args>
[[noreturn]] void fail_at(Status status, std::uint64_t offset, fmt::format_string<Args...> text, const Args&... args) {
  throw_error(status, 0, offset, text, fmt::make_format_args(args...));
}

// The message gets the system's own words appended: "...: No such file or directory".
template <class... Args>
[[noreturn]] void fail_os(Status status, int os_error, fmt::format_string<Args...> text, const Args&... args) {
  throw_error(status, os_error, kNowhere, text, fmt::make_format_args(args...));
}

std::string os_error_text(int os_error);

// A name from a file, fit for one line of a message: quoted, control bytes escaped, cut in its middle to about 80 bytes.
// Not called quoted, which std:: has for strings.
std::string in_quotes(std::string_view name);

// "1.2 GB": decimal, as file managers and download pages count.
std::string human_bytes(std::uint64_t bytes);

}  // namespace st
