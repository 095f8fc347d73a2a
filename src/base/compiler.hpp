// What GCC and Clang offer beyond C++20, and what stands in for it elsewhere (or everywhere, by ST_PLAIN_CXX).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#if (defined(__GNUC__) || defined(__clang__)) && !defined(ST_PLAIN_CXX)
#define ST_GNU_CXX 1
#define ST_ALWAYS_INLINE [[gnu::always_inline]]
#define ST_COLD [[gnu::cold]]
#else
#define ST_GNU_CXX 0
#define ST_ALWAYS_INLINE
#define ST_COLD
#endif

// Functions of their own for processors with AVX2, chosen when the program runs. Not on Windows by GCC, which does not
// align the stack for such vectors there (its bug 54412).
#if ST_GNU_CXX && defined(__x86_64__) && (!defined(_WIN32) || defined(__clang__))
#define ST_LONG_VECTORS __attribute__((target("avx2"), flatten))
#else
#define ST_LONG_VECTORS
#endif

namespace st {

inline bool has_long_vectors() {
#if ST_GNU_CXX && defined(__x86_64__) && (!defined(_WIN32) || defined(__clang__))
  return __builtin_cpu_supports("avx2") != 0;
#else
  return false;
#endif
}

// Fetches the memory at an address, which will be wanted soon and need not be valid.
inline void prefetch(const void* address) {
#if ST_GNU_CXX
  __builtin_prefetch(address);
#else
  static_cast<void>(address);
#endif
}

inline void prefetch_to_write(const void* address) {
#if ST_GNU_CXX
  __builtin_prefetch(address, 1);
#else
  static_cast<void>(address);
#endif
}

// The sum modulo 2^64; returns whether that is another.
inline bool add_overflows(std::uint64_t a, std::uint64_t b, std::uint64_t& sum) {
#if ST_GNU_CXX
  return __builtin_add_overflow(a, b, &sum);
#else
  sum = a + b;
  return sum < a;
#endif
}

inline bool multiply_overflows(std::uint64_t a, std::uint64_t b, std::uint64_t& product) {
#if ST_GNU_CXX
  return __builtin_mul_overflow(a, b, &product);
#else
  product = a * b;
  return a != 0 && product / a != b;
#endif
}

inline std::uint64_t reversed_bytes(std::uint64_t value) {
#if ST_GNU_CXX
  return __builtin_bswap64(value);
#else
  std::uint64_t reversed = 0;
  for (int i = 0; i < 8; ++i, value >>= 8) reversed = reversed << 8 | (value & 0xFF);
  return reversed;
#endif
}

}  // namespace st
