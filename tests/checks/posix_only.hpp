// What GNU's C++ library calls in its own headers and POSIX.1-2008 does not declare. Included first where src/io/posix is
// compiled without the C library's extensions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pthread.h>
#include <time.h>

extern "C" {
long syscall(long number, ...) noexcept;
int pthread_cond_clockwait(pthread_cond_t*, pthread_mutex_t*, clockid_t, const timespec*);
int pthread_mutex_clocklock(pthread_mutex_t*, clockid_t, const timespec*) noexcept;
int pthread_rwlock_clockrdlock(pthread_rwlock_t*, clockid_t, const timespec*) noexcept;
int pthread_rwlock_clockwrlock(pthread_rwlock_t*, clockid_t, const timespec*) noexcept;
}
