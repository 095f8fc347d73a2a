// The dtype for each C++ type: the same on every machine.
// SPDX-License-Identifier: Apache-2.0
#include <safetensors/safetensors.hpp>

#if __has_include(<stdfloat>)
#include <stdfloat>
#endif

using safetensors::Dtype;
using safetensors::dtype_of;

static_assert(dtype_of<bool>() == Dtype::BOOL);
static_assert(dtype_of<signed char>() == Dtype::I8 && dtype_of<unsigned char>() == Dtype::U8);
static_assert(dtype_of<std::int16_t>() == Dtype::I16 && dtype_of<std::uint16_t>() == Dtype::U16);
static_assert(dtype_of<std::int32_t>() == Dtype::I32 && dtype_of<std::uint32_t>() == Dtype::U32);
static_assert(dtype_of<long long>() == Dtype::I64 && dtype_of<unsigned long long>() == Dtype::U64);
static_assert(dtype_of<float>() == Dtype::F32 && dtype_of<double>() == Dtype::F64);
static_assert(dtype_of<const float>() == Dtype::F32);

// There are two float types of two bytes. Few compilers have them, so the rule is tested directly as well.
static_assert(safetensors::detail::floating_dtype(2, 11) == Dtype::F16);
static_assert(safetensors::detail::floating_dtype(2, 8) == Dtype::BF16);
#if defined(__STDCPP_FLOAT16_T__)
static_assert(dtype_of<std::float16_t>() == Dtype::F16);
#endif
#if defined(__STDCPP_BFLOAT16_T__)
static_assert(dtype_of<std::bfloat16_t>() == Dtype::BF16);
#endif

#if defined(REFUSED)
// Each of these lines must be an error.
Dtype refused[] = {
    dtype_of<char>(),         // may be signed or not
    dtype_of<const char>(),   //
    dtype_of<wchar_t>(),      //
    dtype_of<char16_t>(),     //
    dtype_of<char32_t>(),     //
    dtype_of<long double>(),  // no dtype is this large
    dtype_of<std::byte>(),    // no number
};
#endif
