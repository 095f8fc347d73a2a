// A loop whose rounds run at the same time, on threads of our own or on the host's.
//
// Threads live no longer than the call: a library that is unloaded must leave none behind, and starting one costs
// some ten microseconds, which is nothing beside the work that is worth spreading.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>

namespace st {

// The host's own pool: calls fn(arg, i) for every i below n, in any order and on any thread, and returns after all.
struct HostPool {
  void* ctx = nullptr;
  void (*parallel_for)(void* ctx, std::size_t n, void (*fn)(void* arg, std::size_t i), void* arg) = nullptr;
};

// Calls body(i) once for every i below n, and returns when all have come back. The first exception is thrown to the
// caller; rounds that have not begun by then do not begin.
//
// On up to `threads` threads, of which the calling one is one and begins with body(0). Where the system gives fewer
// threads, fewer do the work.
void parallel_for(std::size_t n, unsigned threads, const std::function<void(std::size_t)>& body);
// On the host's pool; without one, as above.
void parallel_for(std::size_t n, unsigned threads, const HostPool& pool, const std::function<void(std::size_t)>& body);

// How many threads this process may run at the same time: at least 1.
unsigned hardware_threads();

}  // namespace st
