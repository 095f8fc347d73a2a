// The exception specification for a program's own definition of a system call: the same as in the C library's
// declaration.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <features.h>

#if defined(__GLIBC__)
#define ST_NOTHROW noexcept
#else
#define ST_NOTHROW
#endif
