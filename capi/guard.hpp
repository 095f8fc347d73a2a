// The boundary of the C API: turns the core's exceptions into statuses, and checks the caller's pointers and strings.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstring>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "safetensors/safetensors.h"

namespace st::capi {

// Fills as much of *err as the caller's struct_size covers; err may be null. Returns the status.
st_status report(st_error* err, const Error& error) noexcept;
st_status report(st_error* err, Status status, const char* message) noexcept;

// Runs body(). Returns ST_OK, or the status of the exception that it throws.
template <class Body>
st_status guard(st_error* err, const Body& body) noexcept {
  try {
    body();
    return ST_OK;
  } catch (const Error& error) {
    return report(err, error);
  } catch (const std::bad_alloc&) {
    return report(err, Status::no_memory, "out of memory");
  } catch (const std::length_error&) {  // a caller's count that no memory could hold
    return report(err, Status::no_memory, "out of memory");
  } catch (const std::exception& error) {
    return report(err, Status::internal, error.what());
  } catch (...) {
    return report(err, Status::internal, "an unknown exception");
  }
}

template <class Pointer>
void require(Pointer pointer, const char* name) {
  if (pointer == nullptr) fail(Status::argument, "{} is NULL", name);
}

// ---- strings with a length, for functions with the suffix _n -----------------------------------------

// Returns the path as a NUL-terminated string, as the system requires. Messages contain `name`.
inline std::string path_of(const char* path, std::size_t len, const char* name = "path") {
  require(path, name);
  if (const void* const nul = std::memchr(path, '\0', len)) {
    const std::string_view begin(path, static_cast<std::size_t>(static_cast<const char*>(nul) + 1 - path));
    fail(Status::argument, "{} {} contains a NUL", name, in_quotes(begin));
  }
  return std::string(path, len);
}

// `text` may be NULL if its length is 0. Messages contain `name`.
inline std::string_view text_of(const char* text, std::size_t len, const char* name) {
  if (len > 0) require(text, name);
  return {text == nullptr ? "" : text, len};
}

inline std::string_view text_of(const char* text, const char* name) {
  require(text, name);
  return text;
}

// Returns the text, which contains no NUL. Sets *len to its length unless `len` is NULL.
inline const char* with_length(const char* text, std::size_t* len) {
  if (len != nullptr) *len = std::strlen(text);
  return text;
}

}  // namespace st::capi
