// SPDX-License-Identifier: Apache-2.0
#include "conversion.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

namespace cli {
namespace {

using safetensors::Dtype;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// A value as the little-endian bytes of its dtype.
using Pattern = std::array<unsigned char, 8>;

Pattern pattern_of(double value, Dtype dtype) {
  Pattern pattern{};
  safetensors::convert(Dtype::F64, &value, dtype, pattern.data(), 1);
  return pattern;
}

double number_of(const Pattern& pattern, Dtype dtype) {
  double number = 0;
  safetensors::convert(dtype, pattern.data(), Dtype::F64, &number, 1);
  return number;
}

template <class T>
std::uint64_t count_matching(std::span<const std::byte> values, const Pattern& mask_bytes,
                             const Pattern& wanted_bytes) {
  constexpr std::size_t kChunk = 240;  // so that 8-bit counters do not overflow
  T mask = 0;
  T wanted = 0;
  std::memcpy(&mask, mask_bytes.data(), sizeof(T));
  std::memcpy(&wanted, wanted_bytes.data(), sizeof(T));
  std::array<T, kChunk> x;
  std::uint64_t count = 0;
  for (std::size_t at = 0; at < values.size(); at += sizeof x) {
    const std::size_t n = std::min(sizeof x, values.size() - at) / sizeof(T);
    std::memcpy(x.data(), values.data() + at, n * sizeof(T));
    T found = 0;  // T, because then a SIMD vector holds as many counters as values
    for (std::size_t i = 0; i < n; ++i) found = static_cast<T>(found + ((x[i] & mask) == wanted ? 1 : 0));
    count += found;
  }
  return count;
}

// NaN and infinity have all bits of infinity set, or all bits of NaN if the dtype has no infinity. A dtype without
// negative zero has only one NaN.
std::uint64_t count_not_finite(Dtype dtype, std::span<const std::byte> values) {
  const Pattern infinity = pattern_of(kInfinity, dtype);
  Pattern mask = infinity;
  if (pattern_of(-0.0, dtype) == pattern_of(0, dtype)) mask.fill(0xFF);
  switch (safetensors::bits(dtype)) {
    case 8: return count_matching<std::uint8_t>(values, mask, infinity);
    case 16: return count_matching<std::uint16_t>(values, mask, infinity);
    case 32: return count_matching<std::uint32_t>(values, mask, infinity);
    default: return count_matching<std::uint64_t>(values, mask, infinity);
  }
}

// In all float dtypes, the bit pattern of the largest number directly precedes infinity, or NaN if there is no
// infinity.
Pattern largest_of(Dtype dtype) {
  Pattern pattern = pattern_of(kInfinity, dtype);
  for (unsigned char& byte : pattern) {
    if (byte-- != 0) break;
  }
  return pattern;
}

// The bits of the smallest number of an unsigned dtype, such as F8_E8M0, are all zeros.
Pattern least_of(Dtype dtype) {
  const bool has_sign = number_of(pattern_of(-1, dtype), dtype) < 0;
  if (!has_sign) return {};
  Pattern pattern = largest_of(dtype);
  pattern[safetensors::bits(dtype) / 8 - 1] |= 0x80U;
  return pattern;
}

// Returns whether every finite value of `from` is also finite in `to`.
bool has_range_of(Dtype to, Dtype from) {
  const auto fits = [&](const Pattern& limit) {
    return std::isfinite(number_of(pattern_of(number_of(limit, from), to), to));
  };
  return fits(largest_of(from)) && fits(least_of(from));
}

// Replaces infinity and NaN that came from numbers by the nearest finite value.
void saturate(Dtype from, std::span<const std::byte> values, Dtype to, std::span<std::byte> converted) {
  constexpr std::size_t kChunk = 1024;
  const std::size_t size = safetensors::bits(to) / 8;
  const std::size_t n = converted.size() / size;
  const Pattern largest = largest_of(to);
  const Pattern least = least_of(to);
  const bool keeps_infinity = has_infinity(to);
  std::array<double, kChunk> before;
  std::array<double, kChunk> after;
  for (std::size_t i = 0; i < n; i += kChunk) {
    const std::size_t part = std::min(kChunk, n - i);
    safetensors::convert(from, values.data() + i * safetensors::bits(from) / 8, Dtype::F64, before.data(), part);
    safetensors::convert(to, converted.data() + i * size, Dtype::F64, after.data(), part);
    for (std::size_t k = 0; k < part; ++k) {
      if (std::isfinite(after[k]) || std::isnan(before[k]) || (std::isinf(before[k]) && keeps_infinity)) continue;
      std::memcpy(converted.data() + (i + k) * size, (before[k] > 0 ? largest : least).data(), size);
    }
  }
}

}  // namespace

bool has_infinity(Dtype dtype) { return std::isinf(number_of(pattern_of(kInfinity, dtype), dtype)); }

// NaN and infinity never become numbers. So each additional NaN or infinity was a number before.
void Converter::convert(Dtype from, std::span<const std::byte> values, Dtype to, std::span<std::byte> converted) {
  safetensors::convert(from, values.data(), to, converted.data(), converted.size() * 8 / safetensors::bits(to));
  if (!saturate_ && has_range_of(to, from)) return;  // with saturate_, infinity may need replacing even then
  const std::uint64_t after = count_not_finite(to, converted);
  if (after == 0) return;
  out_of_range_ += after - count_not_finite(from, values);
  if (saturate_) saturate(from, values, to, converted);
}

}  // namespace cli
