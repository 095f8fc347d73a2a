
// Macros that the host may have set, in a header that it includes before each source or with -D.
#undef min
#undef max
#undef small
#undef check
#undef require
#undef slots
#undef Status
#undef DEBUGLEVEL
#undef NO_CLANG_BUILTIN
#undef USE_GCC_GET_CPUID
#undef ST_BEGIN
#undef ST_END
#undef ST_OPTIMIZE_LOOPS
#undef ST_OPTIMIZE_AS_BEFORE
#undef ST_GNU_CXX
#undef ST_ALWAYS_INLINE
#undef ST_NOINLINE
#undef ST_COLD
#undef ST_AVX2
#undef ST_LONG_VECTORS
#undef ST_DTYPE
#undef ST_STATUS
#undef ST_DRIVER_CALL
#undef ST_CUDA_CALL
#undef ST_HIP_CALL

// Everything except the functions of safetensors.h is private to this file. Tests of internals make it visible.
#ifdef ST_VISIBLE_INTERNALS
#define ST_BEGIN
#define ST_END
#else
#define ST_BEGIN namespace {
#define ST_END }
#endif

#if defined(__GNUC__) || defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpragmas"
#pragma GCC diagnostic ignored "-Wunknown-warning-option"
#pragma GCC diagnostic ignored "-Wunused-function"
#if defined(__clang__)
#pragma GCC diagnostic ignored "-Wunknown-attributes"
#pragma GCC diagnostic ignored "-Wc++20-attribute-extensions"
#pragma GCC diagnostic ignored "-Wc++20-extensions"  // the same, before clang 16
#pragma GCC diagnostic ignored "-Wunneeded-internal-declaration"
#pragma GCC diagnostic ignored "-Wunused-const-variable"
#elif __GNUC__ < 10
#pragma GCC diagnostic ignored "-Wattributes"  // [[likely]] before a block
#endif
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic"
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wunused-variable"
#pragma GCC diagnostic ignored "-Wunused-const-variable"
#pragma GCC diagnostic ignored "-Wdangling-reference"
#pragma GCC diagnostic ignored "-Wtemplate-id-cdtor"
#pragma GCC diagnostic ignored "-Wdeprecated-literal-operator"
#pragma GCC diagnostic ignored "-Wstringop-overflow"  // g++ 12 at -O3: a loop of fmt that ends before
#endif
#define FMT_STATIC_THOUSANDS_SEPARATOR ','
#define FMT_USE_LOCALE 0
#ifndef ST_VISIBLE_INTERNALS  // the tests share fmt's classes
#define FMT_USE_INT128 0
#endif
#define SIMDJSON_IMPLEMENTATION_PPC64 0
#define SIMDJSON_EXCEPTIONS 0
#ifdef ST_MINIMAL  // one kernel for AVX2, and the portable one
#define SIMDJSON_IMPLEMENTATION_ICELAKE 0
#define SIMDJSON_IMPLEMENTATION_WESTMERE 0
#endif
