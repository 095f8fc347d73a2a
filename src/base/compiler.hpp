// Features of GCC and Clang beyond C++20, with replacements for other compilers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#if defined(__GNUC__) || defined(__clang__)
#define ST_GNU_CXX 1
#define ST_ALWAYS_INLINE [[gnu::always_inline]]
#define ST_NOINLINE [[gnu::noinline]]
#define ST_COLD [[gnu::cold]]
#else
#define ST_GNU_CXX 0
#define ST_ALWAYS_INLINE
#define ST_NOINLINE
#define ST_COLD
#endif

// Compiles some functions a second time for AVX2, and chooses at run time. Disabled with GCC on Windows, which does not
// align the stack for AVX vectors there (GCC bug 54412). Also disabled with Microsoft's libraries, which cannot
// identify the processor.
#if ST_GNU_CXX && defined(__x86_64__) && !defined(_MSC_VER) && (!defined(_WIN32) || defined(__clang__))
#define ST_AVX2 1
#define ST_LONG_VECTORS __attribute__((target("avx2"), flatten))
#else
#define ST_AVX2 0
#define ST_LONG_VECTORS
#endif

namespace st {

#if ST_GNU_CXX

// Prefetches memory. The address need not be valid.
inline void prefetch(const void* address) { __builtin_prefetch(address); }
inline void prefetch_to_write(const void* address) { __builtin_prefetch(address, 1); }

#else

inline void prefetch(const void*) {}
inline void prefetch_to_write(const void*) {}

#endif

inline bool has_long_vectors() {
#if ST_AVX2
  return __builtin_cpu_supports("avx2") != 0;
#else
  return false;
#endif
}

}  // namespace st
