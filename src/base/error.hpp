// The one exception type inside the library, and the one way to throw it.
//
// A fault carries everything that st_error shows: what kind, where in the file, what the system said. It is
// caught in one place only, capi/guard.hpp. Status numbers are those of the public header; capi/contract.cpp
// holds the two equal, because nothing in src/ may include that header.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/core.h>

namespace st {

enum class Status : std::int32_t {
  ok = 0,
  // the call
  argument = 100,
  struct_size = 101,
  unsupported = 102,
  not_found = 103,
  range = 104,
  buffer_size = 105,
  state = 106,
  cancelled = 107,
  // the machine
  no_memory = 200,
  open = 201,
  read = 202,
  write = 203,
  map = 204,
  callback = 205,
  // the file
  truncated = 300,
  header_size = 301,
  utf8 = 302,
  json = 303,
  schema = 304,
  duplicate = 305,
  dtype = 306,
  offsets = 307,
  overflow = 308,
  misaligned = 309,
  tensor_size = 310,
  coverage = 311,
  shard = 312,
  format = 313,
  // this library
  internal = 900,
};

inline constexpr std::uint64_t kNowhere = UINT64_MAX;

struct Error {
  Status status = Status::internal;
  int os_error = 0;                 // errno or GetLastError(); 0 when the system is not to blame
  std::uint64_t offset = kNowhere;  // absolute, in the file
  std::string message;              // one line
};

template <class... Args>
[[noreturn]] void fail(Status status, fmt::format_string<Args...> text, Args&&... args) {
  throw Error{status, 0, kNowhere, fmt::format(text, std::forward<Args>(args)...)};
}

template <class... Args>
[[noreturn]] void fail_at(Status status, std::uint64_t offset, fmt::format_string<Args...> text, Args&&... args) {
  throw Error{status, 0, offset, fmt::format(text, std::forward<Args>(args)...)};
}

// The message gets the system's own words appended: "...: No such file or directory".
template <class... Args>
[[noreturn]] void fail_os(Status status, int os_error, fmt::format_string<Args...> text, Args&&... args);

std::string os_error_text(int os_error);

template <class... Args>
void fail_os(Status status, int os_error, fmt::format_string<Args...> text, Args&&... args) {
  throw Error{status, os_error, kNowhere,
              fmt::format(text, std::forward<Args>(args)...) + ": " + os_error_text(os_error)};
}

// A name from a file, fit for one line of a message: quoted, control bytes escaped, cut to about 80 bytes.
// Not called quoted, which std:: has for strings.
std::string in_quotes(std::string_view name);

// "1.2 GB": decimal, as file managers and download pages count.
std::string human_bytes(std::uint64_t bytes);

}  // namespace st
