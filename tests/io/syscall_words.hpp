// A number of 64 bits among the arguments of syscall(). On 32 bit the kernel takes two words, the lower first; on ARM
// they are a pair of registers that begins with an even one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#if defined(__LP64__)
#define ST_WORDS(number) (number)
#else
#define ST_WORDS(number) static_cast<long>(number), static_cast<long>((number) >> 32)
#endif

// The same after an odd count of other arguments.
#if defined(__arm__)
#define ST_WORDS_AFTER_ODD(number) 0L, ST_WORDS(number)
#else
#define ST_WORDS_AFTER_ODD(number) ST_WORDS(number)
#endif
