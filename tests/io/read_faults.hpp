// System calls of the reading side that fail, or do less than they were asked for, on demand.
//
// As in faults.hpp, the program's own definitions stand before the C library's. Any thread.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <string>

namespace read_faults {

struct Plan {
  // "open", "stat", "fstat", "mmap", "readdir", "getxattr", "setxattr", "removexattr", "read"; or of the reads only
  // "pread", "preadv" or "direct read".
  std::string call;
  std::size_t first = 0;                                // this one of them fails, counted from 0
  std::size_t times = 1;                                // and so many in all
  int error = 0;                                        // 0: a read is cut to one byte, every other call is left alone
  std::size_t short_reads = 0;                          // no read brings more bytes than this; 0: as many as there are
  std::function<void(std::size_t number)> before = {};  // each of them, in the thread that calls
};

void arm(const Plan& plan);
void disarm();

// How often plan.call was called since arm().
std::size_t calls();

// Whether this call fails now; errno is set then. For the definitions of open() in faults.cpp.
bool fails(const char* call);

}  // namespace read_faults
