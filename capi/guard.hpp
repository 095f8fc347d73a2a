// The exception barrier: the only place where exceptions of the core become statuses for the caller.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <new>

#include "base/error.hpp"
#include "safetensors/safetensors.h"

namespace st::capi {

// Fills as much of *err as the caller's struct_size covers; err may be null. Returns the status.
st_status report(st_error* err, const Error& error) noexcept;
st_status report(st_error* err, Status status, const char* message) noexcept;

// Runs body() and turns whatever it throws into a status.
template <class Body>
st_status guard(st_error* err, const Body& body) noexcept {
  try {
    body();
    return ST_OK;
  } catch (const Error& error) {
    return report(err, error);
  } catch (const std::bad_alloc&) {
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

}  // namespace st::capi
