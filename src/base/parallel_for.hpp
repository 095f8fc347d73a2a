// A parallel loop, on new threads or on the caller's thread pool.
//
// The new threads end with the call: a library that is unloaded must leave none behind, and to start one takes some ten
// microseconds, which is little compared with any work that is worth a thread.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>

namespace st {

// A thread pool of the caller: calls fn(arg, i) for every i below n, in any order and on any thread, and then returns.
struct HostPool {
  void* ctx = nullptr;
  void (*parallel_for)(void* ctx, std::size_t n, void (*fn)(void* arg, std::size_t i), void* arg) = nullptr;
};

// Calls body(i) once for every i below n, and returns after all these calls have. Throws the first exception that one
// of them throws; calls that have not begun by then are left out.
//
// Uses at most `threads` threads, the calling one included, which begins with body(0). If the system refuses to start a
// thread, the others do its work.
void parallel_for(std::size_t n, unsigned threads, const std::function<void(std::size_t)>& body);
// The same on the thread pool, if there is one.
void parallel_for(std::size_t n, unsigned threads, const HostPool& pool, const std::function<void(std::size_t)>& body);

// Returns how many threads of this process can run at the same time: at least 1.
unsigned hardware_threads();

}  // namespace st
