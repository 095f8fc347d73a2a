// SPDX-License-Identifier: Apache-2.0
#include "difference.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "blocks.hpp"
#include "dtypes.hpp"

namespace cli {
namespace {

using safetensors::Dtype;
using Bytes = std::span<const std::byte>;

void compare_bytes(Bytes a, Bytes b, std::uint64_t at, Difference& difference) {
  if (std::memcmp(a.data(), b.data(), a.size()) == 0) return;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i]) continue;
    if (difference.bytes == 0) difference.first = at + i;
    ++difference.bytes;
  }
}

// Numbers that are equal count as equal however they are spelled: -0 and 0, NaN and another NaN.
void compare_numbers(double a, double b, Difference& difference) {
  if (a == b) return;
  const bool one_is_nan = std::isnan(a) != std::isnan(b);
  if (std::isnan(a) && !one_is_nan) return;
  ++difference.values;
  if (one_is_nan) {
    ++difference.nans;
    return;
  }
  const double distance = std::abs(a - b);
  const double larger = std::max(std::abs(a), std::abs(b));
  difference.absolute = std::max(difference.absolute, distance);
  difference.relative = std::max(difference.relative, std::isinf(larger) ? 1.0 : distance / larger);
}

void compare_values(const TensorPair& pair, Bytes a, Bytes b, Difference& difference) {
  constexpr std::size_t kChunk = 4096;
  std::array<double, kChunk> first;
  std::array<double, kChunk> second;
  const std::size_t size_a = safetensors::bits(pair.a.dtype) / 8;
  const std::size_t size_b = safetensors::bits(pair.b.dtype) / 8;
  for (std::size_t i = 0; i < a.size() / size_a; i += kChunk) {
    const std::size_t n = std::min(kChunk, a.size() / size_a - i);
    safetensors::convert(pair.a.dtype, a.data() + i * size_a, Dtype::F64, first.data(), n);
    safetensors::convert(pair.b.dtype, b.data() + i * size_b, Dtype::F64, second.data(), n);
    for (std::size_t k = 0; k < n; ++k) compare_numbers(first[k], second[k], difference);
  }
}

}  // namespace

void for_each_difference(const std::vector<TensorPair>& pairs,
                         const std::function<void(std::size_t, const Difference&)>& tell) {
  std::vector<Source> sources;
  sources.reserve(pairs.size());
  for (const TensorPair& pair : pairs) sources.push_back({pair.file_a, pair.a});
  std::vector<std::byte> other;
  Difference difference;
  for_each_part(sources, "comparing", [&](const Part& part) {
    const TensorPair& pair = pairs[part.source];
    const bool one_type = pair.a.dtype == pair.b.dtype;
    const std::uint64_t bits_a = safetensors::bits(pair.a.dtype);
    const std::uint64_t bits_b = safetensors::bits(pair.b.dtype);
    const auto scaled = [&](std::uint64_t bytes) { return one_type ? bytes : bytes * bits_b / bits_a; };
    const auto size = static_cast<std::size_t>(scaled(part.bytes.size()));
    if (other.size() < size) other.resize(size);
    pair.file_b.read_shard(pair.b.shard(), pair.b.offset() + scaled(part.at), other.data(), size);
    const Bytes b = std::span(other).first(size);
    if (part.at == 0) difference = {};
    difference.has_values = is_convertible(pair.a.dtype);
    const bool same = one_type && std::memcmp(part.bytes.data(), b.data(), size) == 0;
    if (!same && one_type) compare_bytes(part.bytes, b, part.at, difference);
    if (!same && difference.has_values) compare_values(pair, part.bytes, b, difference);
    if (part.at + part.bytes.size() == pair.a.nbytes() && difference.bytes + difference.values != 0) {
      tell(part.source, difference);
    }
  });
}

}  // namespace cli
