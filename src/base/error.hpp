// The one exception type of the library, and the functions that throw it.
//
// An Error contains everything that st_error reports. capi/guard.hpp turns it into a status. Inside the library, code
// catches an Error only to report it elsewhere (from a worker thread, in a list of findings), to fall back to another
// method, or to clean up before rethrowing.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "base/compiler.hpp"
#include "base/text.hpp"

namespace st {

enum class Status : std::int32_t {
#define ST_STATUS(name, public_name, number) name = (number),
#include "base/statuses.def"
#undef ST_STATUS
};

// Returns the public name of a status.
inline const char* status_name(Status status) {
  switch (status) {
#define ST_STATUS(name, public_name, number) \
  case Status::name:                         \
    return #public_name;
#include "base/statuses.def"
#undef ST_STATUS
  }
  return "an unknown status";
}

inline constexpr std::uint64_t kNowhere = UINT64_MAX;

struct Error {
  Status status = Status::internal;
  int os_error = 0;                 // errno or GetLastError(); 0 if the system reported no error
  std::uint64_t offset = kNowhere;  // absolute, in the file
  std::string message;              // one line
};

// Returns the system's message for an error number.
std::string os_error_text(int os_error);

[[noreturn]] ST_COLD inline void throw_error(Status status, int os_error, std::uint64_t offset, fmt::string_view text,
                                             fmt::format_args args) {
  std::string message = formatted_text(text, args);
  if (os_error != 0) message += ": " + os_error_text(os_error);
  throw Error{status, os_error, offset, std::move(message)};
}

// Throws an Error with a formatted message.
template <class... Args>
[[noreturn]] void fail(Status status, fmt::format_string<Args...> text, const Args&... args) {
  throw_error(status, 0, kNowhere, text, fmt::make_format_args(args...));
}

// Throws an Error at this offset in the file.
template <class... Args>
[[noreturn]] void fail_at(Status status, std::uint64_t offset, fmt::format_string<Args...> text, const Args&... args) {
  throw_error(status, 0, offset, text, fmt::make_format_args(args...));
}

// Throws an Error whose message ends with the system's message: "...: No such file or directory".
template <class... Args>
[[noreturn]] void fail_os(Status status, int os_error, fmt::format_string<Args...> text, const Args&... args) {
  throw_error(status, os_error, kNowhere, text, fmt::make_format_args(args...));
}

}  // namespace st
