// The interface between tests and the fake drivers, in addition to the drivers' functions. Both libraries export it.
//
// A fake driver behaves as the worst driver that keeps its promises: device memory faults when the processor touches
// it, a copy is made only when a thread waits for it, and everything that a driver may reject is rejected and counted.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

// Restores the initial state: two devices, no failures, no faults, late copies. Leaks remain counted.
void fake_reset();
void fake_set_devices(int count);  // -1: no device; only the count shows it, without an error
void fake_set_init(int code);      // the result of the very first call

// The nth call from now on, counted from 0, returns this code and has no effect, except that a release is still done.
void fake_fail_call(std::int64_t nth, int code);
// The nth copy from now on is started, but fails later. As on a real device, everything fails from then on.
void fake_fail_copy(std::int64_t nth);
// All calls of this name fail until a reset.
void fake_refuse(const char* name, int code);
std::int64_t fake_calls();       // since the last fake_fail_call() or fake_reset()
const char* fake_failed_call();  // the name of the call that fake_fail_call() made fail; null: none yet
int fake_failures();             // how many calls were made to fail

// A description of a call that a driver does not allow, or null.
const char* fake_fault();
// Streams, events, pinned and device memory and contexts that were not released.
int fake_leaks();
std::size_t fake_pinned();        // bytes, now
const void* fake_first_pinned();  // memory, or null
std::size_t fake_most_pinned();   // bytes, the most since fake_reset()
std::int64_t fake_copies();       // that were begun since fake_reset()
std::int64_t fake_in_flight();    // copies
int fake_last_error();            // (HIP) the error of this thread's last failed call, which persists
int fake_depth();                 // contexts that are current on this thread, or (HIP) the current device

// Device memory, which only the device may touch.
void fake_read(const void* device, void* to, std::size_t bytes);
// Work for a stream: it fills device memory, as late as copies.
void fake_fill(void* stream, void* device, int value, std::size_t bytes);

// Copies are made immediately, one at a time on each device, at this speed; 0: late, when a thread waits. Without
// `really`, they take the same time but copy nothing, because a real device's copy uses no processor time.
void fake_pace(double bytes_per_second, int really);

// A faulty driver: waiting for an event returns before the copies are made. So a slot is overwritten too early, as if
// the library did not wait. fake_drain() makes all copies.
void fake_break_waits(int broken);
void fake_drain();

void* fake_new_context(int ordinal);        // one that is not primary
void fake_allow_only(const void* context);  // to make another one current is a fault
void* fake_default_stream(int ordinal, int per_thread);
void* fake_new_stream(int ordinal);
void fake_free_stream(void* stream);
}
