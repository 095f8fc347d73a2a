// What tests ask of the fake drivers beside what drivers have. Both libraries export these functions.
//
// A fake driver behaves as the worst driver that keeps its promises: device memory faults when the processor touches it,
// a copy is made when somebody waits for it and no earlier, and what a driver may refuse is refused and counted.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

// Back to how the library was loaded: two devices, nothing fails, no fault, late copies. What leaked stays.
void fake_reset();
void fake_set_devices(int count);  // -1: none, of which only the count tells and no error
void fake_set_init(int code);      // what the first call of all returns

// The nth call from now on, counted from 0, returns this code and does nothing, or, if it gives something back, does it.
void fake_fail_call(std::int64_t nth, int code);
// The nth copy from now on is begun, and fails later. As on a device, everything fails from then on.
void fake_fail_copy(std::int64_t nth);
// All calls of this name fail, as long as nothing is reset.
void fake_refuse(const char* name, int code);
std::int64_t fake_calls();       // since the last fake_fail_call() or fake_reset()
const char* fake_failed_call();  // the name of the one that fake_fail_call() made fail; null: none yet
int fake_failures();             // how many calls were made to fail

// What was done that a driver does not allow, in words, or null.
const char* fake_fault();
// Streams, events, pinned and device memory and contexts that are not given back.
int fake_leaks();
std::size_t fake_pinned();        // bytes, now
const void* fake_first_pinned();  // memory, or null
std::size_t fake_most_pinned();   // bytes, the most since fake_reset()
std::int64_t fake_copies();       // that were begun since fake_reset()
std::int64_t fake_in_flight();    // copies
int fake_last_error();            // (HIP) what the last call of this thread that failed left behind, and stays
int fake_depth();                 // contexts that are current on this thread, or (HIP) the current device

// Device memory, which only the device may touch.
void fake_read(const void* device, void* to, std::size_t bytes);
// Work for a stream: it fills device memory, late as copies are.
void fake_fill(void* stream, void* device, int value, std::size_t bytes);

// Copies are made at once, one at a time on each device, at this speed; 0: late, when somebody waits. Without `really`
// they take their time and copy nothing, as the processor does no work for a copy of a device.
void fake_pace(double bytes_per_second, int really);

// A driver that breaks its promise: waiting for an event returns before the copies are made. So a slot is written to too
// early, as by a library that does not wait. fake_drain() makes all copies.
void fake_break_waits(int broken);
void fake_drain();

void* fake_new_context(int ordinal);        // one that is not primary
void fake_allow_only(const void* context);  // to make another one current is a fault
void* fake_default_stream(int ordinal, int per_thread);
void* fake_new_stream(int ordinal);
void fake_free_stream(void* stream);
}
