// A parallel loop, on new threads or on the caller's thread pool.
//
// The new threads end with the call, because no thread may outlive an unloaded library. Starting a thread takes about
// ten microseconds, so only larger work is worth one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>

namespace st {

// The caller's thread pool. Calls fn(arg, i) for every i below n, in any order and on any thread, and then returns.
struct HostPool {
  void* ctx = nullptr;
  void (*parallel_for)(void* ctx, std::size_t n, void (*fn)(void* arg, std::size_t i), void* arg) = nullptr;
};

// Calls body(i) once for every i below n, and returns after all calls have returned. If a call throws, rethrows the
// first exception and skips the calls that have not begun.
//
// Uses at most `threads` threads, including the calling thread, which begins with body(0). If the system cannot start a
// thread, the others do its work.
void parallel_for(std::size_t n, unsigned threads, const std::function<void(std::size_t)>& body);
// Same as above, but uses the thread pool if there is one.
void parallel_for(std::size_t n, unsigned threads, const HostPool& pool, const std::function<void(std::size_t)>& body);

// Returns how many threads of this process can run at the same time, at least 1.
unsigned hardware_threads();

}  // namespace st
