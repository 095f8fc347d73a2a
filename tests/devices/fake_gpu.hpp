// The machine behind the fake drivers: devices with memory, streams, events and contexts.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "fake.hpp"

namespace fake {

// Numbers that CUDA and HIP share.
enum Code : int {
  kOk = 0,
  kInvalidValue = 1,
  kNoMemory = 2,
  kNotInitialized = 3,
  kNoDevice = 100,
  kInvalidDevice = 101,
  kInvalidContext = 201,
  kInvalidHandle = 400,
  kNotReady = 600,
  kIllegalAddress = 700,
  kAlreadyRegistered = 712,
  kNotRegistered = 713,
};

struct Context;
struct Stream;
struct Event;

// Called first in every entry point. Returns the code that the call must return, or kOk.
int enter(const char* name);
// The same for calls that release something, which they do in any case.
int giving_back(const char* name);
void fault(const char* what);
int device_count();
int init_code();
void mark_initialized();
const char* name_of(int code);

// The device that is current on this thread; -1 if none is. Each driver has its own way.
int current_device();

Context* primary(int device);
int retain(int device);
int release(int device);
int device_of(const Context* context);

// The current device's predefined stream: the legacy one or, with per_thread, the per-thread one.
Stream* default_stream(bool per_thread);
// A context of the caller. Making any other context current is a fault.
void check_context(const Context* context);
// Flags other than those that the library needs are a fault.
void expect_flags(unsigned flags, unsigned expected, const char* what);

int new_stream(Stream** out);
int free_stream(Stream* stream);
int wait_for_event(Stream* stream, Event* event);
int synchronize(Stream* stream);
int new_event(Event** out);
int free_event(Event* event);
int record(Event* event, Stream* stream);
int synchronize(Event* event);
int query(Event* event);  // kOk or kNotReady
int copy(std::uintptr_t dst, const void* src, std::size_t bytes, Stream* stream);
int copy_back(void* dst, std::uintptr_t src, std::size_t bytes);  // at once
int pin(void* memory, std::size_t bytes);
int unpin(void* memory);
int new_pinned(void** out, std::size_t bytes);
int free_pinned(void* memory);
int new_memory(std::uintptr_t* out, std::size_t bytes);
int range_of_memory(std::uintptr_t* begin, std::size_t* bytes, std::uintptr_t address);
int free_memory(std::uintptr_t memory);

}  // namespace fake
