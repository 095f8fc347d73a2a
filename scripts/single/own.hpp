
#if defined(__GNUC__) || defined(__clang__)
#pragma GCC diagnostic pop
#endif

// Conversions are loops for vector code.
#if defined(__GNUC__) && !defined(__clang__) && defined(__OPTIMIZE__)
#define ST_OPTIMIZE_LOOPS _Pragma("GCC push_options") _Pragma("GCC optimize(\"O3,no-trapping-math\")")
#define ST_OPTIMIZE_AS_BEFORE _Pragma("GCC pop_options")
#else
#define ST_OPTIMIZE_LOOPS
#define ST_OPTIMIZE_AS_BEFORE
#endif
