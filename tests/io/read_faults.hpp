// System calls for reading that fail, or do less than requested, on demand.
//
// As in faults.hpp, the program's own definitions replace the C library's. Any thread.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <string>

namespace read_faults {

struct Plan {
  // "open", "stat", "fstat", "mmap", "readdir", "getxattr", "setxattr", "removexattr", "read"; or only some reads:
  // "pread", "preadv" or "direct read". "*": all of these, and a read counts as several.
  std::string call;
  std::size_t first = 0;                                // this one of them fails, counted from 0
  std::size_t times = 1;                                // and so many in all
  int error = 0;                                        // 0: a read is cut to one byte; other calls are unchanged
  std::size_t short_reads = 0;                          // maximum bytes per read; 0: no limit
  std::function<void(std::size_t number)> before = {};  // each of them, in the thread that calls
};

void arm(const Plan& plan);
void disarm();

// Returns the number of calls of plan.call since arm().
std::size_t calls();

// Whether this call fails now; errno is set then. For the definitions of open() in faults.cpp.
bool fails(const char* call);

}  // namespace read_faults
