// What GCC and Clang offer beyond C++20, and what stands in for it elsewhere.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#if defined(__GNUC__) || defined(__clang__)
#define ST_GNU_CXX 1
#define ST_ALWAYS_INLINE [[gnu::always_inline]]
#define ST_COLD [[gnu::cold]]
#else
#define ST_GNU_CXX 0
#define ST_ALWAYS_INLINE
#define ST_COLD
#endif

// Functions of their own for processors with AVX2, chosen when the program runs. Not on Windows by GCC, which does not
// align the stack for such vectors there (its bug 54412), nor with Microsoft's libraries, which do not know processors.
#if ST_GNU_CXX && defined(__x86_64__) && !defined(_MSC_VER) && (!defined(_WIN32) || defined(__clang__))
#define ST_AVX2 1
#define ST_LONG_VECTORS __attribute__((target("avx2"), flatten))
#else
#define ST_AVX2 0
#define ST_LONG_VECTORS
#endif

namespace st {

// For compilers without builtins.
namespace plain {

[[nodiscard]] constexpr bool checked_add(std::uint64_t a, std::uint64_t b, std::uint64_t& sum) {
  sum = a + b;
  return sum >= a;
}

[[nodiscard]] constexpr bool checked_mul(std::uint64_t a, std::uint64_t b, std::uint64_t& product) {
  product = a * b;
  return a == 0 || product / a == b;
}

constexpr std::uint64_t reversed_bytes(std::uint64_t value) {
  std::uint64_t reversed = 0;
  for (int i = 0; i < 8; ++i, value >>= 8) reversed = reversed << 8 | (value & 0xFF);
  return reversed;
}

}  // namespace plain

#if ST_GNU_CXX

// Stores the result modulo 2^64, and returns whether that is the result itself.
[[nodiscard]] inline bool checked_add(std::uint64_t a, std::uint64_t b, std::uint64_t& sum) {
  return !__builtin_add_overflow(a, b, &sum);
}

[[nodiscard]] inline bool checked_mul(std::uint64_t a, std::uint64_t b, std::uint64_t& product) {
  return !__builtin_mul_overflow(a, b, &product);
}

inline std::uint64_t reversed_bytes(std::uint64_t value) { return __builtin_bswap64(value); }

// Fetches memory that will be wanted soon. The address need not be valid.
inline void prefetch(const void* address) { __builtin_prefetch(address); }
inline void prefetch_to_write(const void* address) { __builtin_prefetch(address, 1); }

#else

using plain::checked_add;
using plain::checked_mul;
using plain::reversed_bytes;

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
