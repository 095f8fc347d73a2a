// safetensors.cpp - libsafetensors @VERSION@ in one file. Made by ./dev amalgamate from the library's sources; change those.
// SPDX-License-Identifier: Apache-2.0 AND MIT AND BSD-2-Clause AND BSD-3-Clause (see LICENSE)

#if __cplusplus < 201703L && !(defined(_MSVC_LANG) && _MSVC_LANG >= 201703L)
#error "safetensors.cpp needs C++17 or later"
#endif

#if defined(_WIN32)
#if !defined(_WIN32_WINNT) || _WIN32_WINNT < 0x0A00
#undef _WIN32_WINNT
#define _WIN32_WINNT 0x0A00  // Windows 10
#endif
#ifndef WIN32_LEAN_AND_MEAN
#define WIN32_LEAN_AND_MEAN
#endif
#ifndef NOMINMAX
#define NOMINMAX
#endif
#ifndef _CRT_RAND_S
#define _CRT_RAND_S  // rand_s
#endif
#ifndef UNICODE
#define UNICODE
#endif
#elif !defined(_FILE_OFFSET_BITS) && __SIZEOF_POINTER__ == 4
#define _FILE_OFFSET_BITS 64  // otherwise off_t has 31 bits on 32-bit systems
#endif

// What simdjson, fmt and xxHash include under conditions.
#if defined(_WIN32)
#include <io.h>
#else
#include <strings.h>
#endif
#if defined(__x86_64__) || defined(__i386__) || defined(_M_X64)
#include <immintrin.h>
#if defined(_MSC_VER)
#include <intrin.h>
#else
#include <cpuid.h>
#include <x86intrin.h>
#endif
#elif defined(__aarch64__) || defined(__ARM_NEON)
#include <arm_neon.h>
#elif defined(__powerpc64__) && defined(__ALTIVEC__)
#if defined(__GNUC__) && !defined(__APPLE_ALTIVEC__)
#define __APPLE_ALTIVEC__  // otherwise vector, pixel and bool become macros
#endif
#include <altivec.h>
#elif defined(__s390x__) && defined(__VEC__)
#include <s390intrin.h>
#endif
#include <assert.h>
#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <ostream>
#if __cplusplus >= 202002L
#include <bit>
#include <span>
#endif
