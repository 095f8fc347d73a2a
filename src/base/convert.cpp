// Each dtype has two loops, from it to F32 and from F32 to it. Other conversions go through blocks of F32, which
// represents every value of every dtype except F64. The loops have no branches, so the compiler vectorizes them.
// SPDX-License-Identifier: Apache-2.0
#include "base/convert.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "base/compiler.hpp"
#include "base/error.hpp"

namespace st {

namespace {

using Loop = void (*)(const std::byte* __restrict src, std::byte* __restrict dst, std::size_t n);

// Signed, because SSE2 compares signed integers only. All compared values are positive.
using Bits = std::int32_t;

constexpr Bits kSign = INT32_MIN;
constexpr Bits kInfinity = 0x7F800000;
constexpr Bits kQuietNan = 0x7FC00000;
constexpr int kMantissaBits = 23;
constexpr int kBias = 127;

float as_float(Bits bits) { return std::bit_cast<float>(bits); }
Bits as_bits(float value) { return std::bit_cast<Bits>(value); }

// Avoids `?:`, which a compiler may turn into a branch. Loops with branches are not vectorized.
constexpr Bits select(bool condition, Bits yes, Bits no) { return no ^ ((yes ^ no) & -static_cast<Bits>(condition)); }

// Wraps around. Only the sum for a NaN may overflow, and its result is discarded.
constexpr Bits sum(Bits a, Bits b) {
  return static_cast<Bits>(static_cast<std::uint32_t>(a) + static_cast<std::uint32_t>(b));
}

// The meaning of the largest exponent.
enum class Top : std::uint8_t {
  ieee,  // infinity and NaN
  one,   // numbers, except that all bits set are NaN
  fnuz,  // numbers; NaN has the bits of negative zero
  full,  // numbers
};

// A float of at most 16 bits whose exponent has fewer bits than F32's.
struct Layout {
  int exponent_bits;
  int mantissa_bits;
  int bias;
  Top top;
  bool keeps_payload = false;  // of NaN: numpy does, ml_dtypes does not

  constexpr int shift() const { return kMantissaBits - mantissa_bits; }
  constexpr Bits mantissa() const { return 1 << mantissa_bits; }
  constexpr Bits sign() const { return 1 << (exponent_bits + mantissa_bits); }
  constexpr Bits top_exponent() const { return ((1 << exponent_bits) - 1) << mantissa_bits; }
  // The first bit pattern that is infinity or NaN.
  constexpr Bits beyond() const { return top == Top::ieee ? top_exponent() : top == Top::one ? sign() - 1 : sign(); }
  constexpr Bits nan() const { return top == Top::ieee ? top_exponent() + (1 << (mantissa_bits - 1)) : beyond(); }
  // The difference of the exponent biases, shifted to the position of F32's exponent.
  constexpr Bits rebias() const { return (kBias - bias) << kMantissaBits; }
  constexpr Bits least_normal() const { return rebias() + (1 << kMantissaBits); }  // as F32
};

constexpr Layout kF16{5, 10, 15, Top::ieee, true};
constexpr Layout kE5M2{5, 2, 15, Top::ieee};
constexpr Layout kE4M3{4, 3, 7, Top::one};
constexpr Layout kE5M2Fnuz{5, 2, 16, Top::fnuz};
constexpr Layout kE4M3Fnuz{4, 3, 8, Top::fnuz};
constexpr Layout kE2M1{2, 1, 1, Top::full};
constexpr Layout kE2M3{2, 3, 1, Top::full};
constexpr Layout kE3M2{3, 2, 3, Top::full};

template <class Narrow, const Layout& kFormat>
struct SmallFloat {
  using Stored = Narrow;

  static Bits widened(Bits stored) {
    const Bits sign = select(stored >= kFormat.sign(), kSign, 0);
    const Bits magnitude = stored & (kFormat.sign() - 1);
    const Bits shifted = magnitude << kFormat.shift();
    const Bits normal = shifted + kFormat.rebias();
    // Puts a 1 before the mantissa and subtracts it again. No operand is a denormal F32, so the result is the same on a
    // processor that flushes denormals to zero.
    const Bits denormal = as_bits(as_float(shifted + kFormat.least_normal()) - as_float(kFormat.least_normal()));
    Bits wide = select(magnitude < kFormat.mantissa(), denormal, normal);
    if constexpr (kFormat.top == Top::ieee) {
      const Bits nan = kFormat.keeps_payload ? shifted | kInfinity : kQuietNan;
      wide = select(magnitude == kFormat.beyond(), kInfinity, wide);
      wide = select(magnitude > kFormat.beyond(), nan, wide);
    } else if constexpr (kFormat.top != Top::full) {
      const Bits all = kFormat.top == Top::one ? magnitude : stored;
      wide = select(all == kFormat.beyond(), kQuietNan, wide);
    }
    return wide | sign;
  }

  static Bits narrowed(Bits wide) {
    const Bits magnitude = wide & ~kSign;
    constexpr Bits kHalf = 1 << (kFormat.shift() - 1);
    const Bits odd = magnitude >> kFormat.shift() & 1;
    const Bits normal = (magnitude - kFormat.rebias() + kHalf - 1 + odd) >> kFormat.shift();
    // In a float of this magnitude, the last mantissa bit has the same value as the last bit of a denormal result. So
    // the addition rounds correctly.
    constexpr Bits kScale = kFormat.least_normal() + (kFormat.shift() << kMantissaBits);
    const Bits denormal = as_bits(as_float(magnitude) + as_float(kScale)) - kScale;
    Bits small = select(normal > kFormat.beyond(), kFormat.beyond(), normal);
    small = select(magnitude < kFormat.least_normal(), denormal, small);
    Bits nan = kFormat.nan();
    if constexpr (kFormat.keeps_payload) {
      const Bits payload = magnitude >> kFormat.shift() & (kFormat.mantissa() - 1);
      nan = kFormat.top_exponent() | payload | static_cast<Bits>(payload == 0);
    }
    small = select(magnitude > kInfinity, nan, small);
    Bits sign = select(wide < 0, kFormat.sign(), 0);
    if constexpr (kFormat.top == Top::fnuz) sign = select(small == 0, 0, sign);
    return small | sign;
  }
};

struct BFloat {
  using Stored = std::uint16_t;

  static Bits widened(Bits stored) { return static_cast<Bits>(static_cast<std::uint32_t>(stored) << 16); }
  static Bits narrowed(Bits wide) {
    const Bits magnitude = wide & ~kSign;
    const Bits odd = magnitude >> 16 & 1;
    return select(magnitude > kInfinity, kQuietNan >> 16, sum(magnitude, 0x7FFF + odd) >> 16) |
           select(wide < 0, 0x8000, 0);
  }
};

// 2^(stored - 127), and NaN.
struct PowerOfTwo {
  using Stored = std::uint8_t;
  static constexpr Bits kNan = 0xFF;
  static constexpr Bits kLeast = 0x00400000;  // 2^-127, a denormal F32

  static Bits widened(Bits stored) {
    const Bits power =
        select(stored == 0, kLeast, static_cast<Bits>(static_cast<std::uint32_t>(stored) << kMantissaBits));
    return select(stored == kNan, kQuietNan, power);
  }
  static Bits narrowed(Bits wide) {
    const Bits magnitude = wide & ~kSign;
    const Bits normal = sum(magnitude, 1 << (kMantissaBits - 1)) >> kMantissaBits;
    const Bits denormal = select(magnitude > kLeast, 1, 0);  // rounded up, as in ml_dtypes and torch
    const Bits power = select(magnitude < 1 << kMantissaBits, denormal, normal);
    const bool none = wide <= 0;
    return select(none | (magnitude >= kInfinity), kNan, power);
  }
};

// Elements in memory are little-endian on every machine, as in files.
template <class T>
T little_endian(T value) {
  if constexpr (std::endian::native == std::endian::little) return value;
  auto bytes = std::bit_cast<std::array<std::byte, sizeof(T)>>(value);
  std::reverse(bytes.begin(), bytes.end());
  return std::bit_cast<T>(bytes);
}

template <class T>
T load(const std::byte* src, std::size_t i) {
  T value;
  std::memcpy(&value, src + i * sizeof value, sizeof value);
  return little_endian(value);
}

template <class T>
void store(std::byte* dst, std::size_t i, T value) {
  value = little_endian(value);
  std::memcpy(dst + i * sizeof value, &value, sizeof value);
}

template <class Format>
void widen(const std::byte* __restrict src, std::byte* __restrict dst, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) store(dst, i, Format::widened(load<typename Format::Stored>(src, i)));
}

// The first of the packed codes begins at the lowest bit of the first byte.
template <const Layout& kFormat>
void widen_packed(const std::byte* __restrict src, std::byte* __restrict dst, std::size_t n) {
  constexpr unsigned kBits = kFormat.exponent_bits + kFormat.mantissa_bits + 1;
  std::array<Bits, 1 << kBits> values;
  for (unsigned i = 0; i < values.size(); ++i)
    values[i] = SmallFloat<std::uint8_t, kFormat>::widened(static_cast<Bits>(i));
  for (std::size_t i = 0; i < n; ++i) {
    const unsigned shift = i * kBits % 8;
    const std::byte* const at = src + i * kBits / 8;
    auto code = std::to_integer<unsigned>(at[0]) >> shift;
    if (shift + kBits > 8) code |= std::to_integer<unsigned>(at[1]) << (8 - shift);
    store(dst, i, values[code % values.size()]);
  }
}

template <class Format>
void narrow(const std::byte* __restrict src, std::byte* __restrict dst, std::size_t n) {
  using Stored = typename Format::Stored;
  for (std::size_t i = 0; i < n; ++i) store(dst, i, static_cast<Stored>(Format::narrowed(load<Bits>(src, i))));
}

void float_from_double(const std::byte* __restrict src, std::byte* __restrict dst, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) store(dst, i, static_cast<float>(load<double>(src, i)));
}

void double_from_float(const std::byte* __restrict src, std::byte* __restrict dst, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) store(dst, i, static_cast<double>(load<float>(src, i)));
}

// Rounds to odd: an inexact result becomes whichever of its two neighbours is odd. Rounding again to a narrower dtype
// then gives the same result as rounding once.
void odd_float_from_double(const std::byte* __restrict src, std::byte* __restrict dst, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    const auto value = load<double>(src, i);
    const auto nearest = static_cast<float>(value);
    const auto back = static_cast<double>(nearest);
    const bool beyond = std::fabs(back) > std::fabs(value);
    const bool exact = back == value;
    store(dst, i, (as_bits(nearest) - static_cast<Bits>(beyond)) | static_cast<Bits>(!exact));
  }
}

struct Loops {
  Loop to_float = nullptr;
  Loop from_float = nullptr;
};

// The same loops, compiled for AVX2.
template <class Format>
ST_LONG_VECTORS void widen_by_long_vectors(const std::byte* __restrict src, std::byte* __restrict dst, std::size_t n) {
  widen<Format>(src, dst, n);
}

template <class Format>
ST_LONG_VECTORS void narrow_by_long_vectors(const std::byte* __restrict src, std::byte* __restrict dst, std::size_t n) {
  narrow<Format>(src, dst, n);
}

template <class Format>
Loops loops(bool long_vectors) {
  if (long_vectors) return {widen_by_long_vectors<Format>, narrow_by_long_vectors<Format>};
  return {widen<Format>, narrow<Format>};
}

// F32 needs no loops.
Loops loops_of(Dtype dtype, bool long_vectors) {
  switch (dtype) {
    case Dtype::F64: return {odd_float_from_double, double_from_float};
    case Dtype::F16: return loops<SmallFloat<std::uint16_t, kF16>>(long_vectors);
    case Dtype::BF16: return loops<BFloat>(long_vectors);
    case Dtype::F8_E4M3: return loops<SmallFloat<std::uint8_t, kE4M3>>(long_vectors);
    case Dtype::F8_E5M2: return loops<SmallFloat<std::uint8_t, kE5M2>>(long_vectors);
    case Dtype::F8_E8M0: return loops<PowerOfTwo>(long_vectors);
    case Dtype::F8_E4M3FNUZ: return loops<SmallFloat<std::uint8_t, kE4M3Fnuz>>(long_vectors);
    case Dtype::F8_E5M2FNUZ: return loops<SmallFloat<std::uint8_t, kE5M2Fnuz>>(long_vectors);
    case Dtype::F6_E2M3: return {widen_packed<kE2M3>};
    case Dtype::F6_E3M2: return {widen_packed<kE3M2>};
    case Dtype::F4: return {widen_packed<kE2M1>};
    default: return {};
  }
}

std::size_t width(Dtype dtype) { return info(dtype).bits / 8; }

constexpr std::size_t kBlock = 1024;
using Floats = std::array<std::byte, kBlock * sizeof(float)>;

void scale(std::byte* floats, std::size_t n, float factor) {
  for (std::size_t i = 0; i < n; ++i) store(floats, i, load<float>(floats, i) * factor);
}

}  // namespace

void convert(Dtype from, const std::byte* src, Dtype to, std::byte* dst, std::size_t n, Vectors vectors) {
  const bool long_vectors = vectors == Vectors::best && has_long_vectors();
  const Loop to_float = loops_of(from, long_vectors).to_float;
  const Loop from_float = loops_of(to, long_vectors).from_float;
  const bool from_double = from == Dtype::F64;
  if ((to_float == nullptr && from != Dtype::F32) || (from_float == nullptr && to != Dtype::F32)) {
    fail(Status::unsupported, "cannot convert {} to {}", info(from).name, info(to).name);
  }
  if (from == to) {
    if (n != 0) std::memcpy(dst, src, n * width(from));
    return;
  }
  if (from == Dtype::F32) return from_float(src, dst, n);
  if (to == Dtype::F32) return from_double ? float_from_double(src, dst, n) : to_float(src, dst, n);
  // numpy rounds a double once. ml_dtypes and torch round it to F32 first, then to the smaller dtype.
  const Loop first = from_double && to != Dtype::F16 ? float_from_double : to_float;
  alignas(64) Floats floats;
  for (std::size_t i = 0; i < n; i += kBlock) {
    const std::size_t count = std::min(n - i, kBlock);
    first(src + i / 8 * info(from).bits, floats.data(), count);
    from_float(floats.data(), dst + i * width(to), count);
  }
}

void convert_scaled(Dtype from, const std::byte* src, Dtype scale_dtype, const std::byte* scales, std::size_t block,
                    const std::byte* global_scale, Dtype to, std::byte* dst, std::size_t n) {
  convert(from, nullptr, to, nullptr, 0);  // checks the dtypes
  if (!info(scale_dtype).convertible) fail(Status::unsupported, "scales cannot be {}", info(scale_dtype).name);
  alignas(64) Floats floats;
  alignas(64) Floats factors;
  for (std::size_t i = 0; i < n; i += kBlock) {
    const std::size_t count = std::min(n - i, kBlock);
    const std::size_t first = i / block;
    const std::size_t blocks = (i + count - 1) / block - first + 1;
    convert(from, src + i / 8 * info(from).bits, Dtype::F32, floats.data(), count);
    convert(scale_dtype, scales + first * width(scale_dtype), Dtype::F32, factors.data(), blocks);
    if (global_scale != nullptr) scale(factors.data(), blocks, load<float>(global_scale, 0));
    for (std::size_t k = 0, b = 0; b < blocks; ++b) {
      const std::size_t end = std::min(count, (first + b + 1) * block - i);
      scale(&floats[k * sizeof(float)], end - k, load<float>(factors.data(), b));
      k = end;
    }
    convert(Dtype::F32, floats.data(), to, dst + i * width(to), count);
  }
}

}  // namespace st
