// The loops have one accumulator per SIMD lane, so compilers can vectorize them without reordering sums.
// SPDX-License-Identifier: Apache-2.0
#include "values.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <iterator>
#include <utility>

#include "base/dtype.hpp"

namespace cli {
namespace {

using safetensors::Dtype;

constexpr std::size_t kLanes = 16;
constexpr std::size_t kChunk = 4096;  // elements, which fit into the L1 cache

template <class T>
using Lanes = std::array<T, kLanes>;

template <class T, class Function>
T fold(const Lanes<T>& lanes, const Function& function) {
  T all = lanes[0];
  for (std::size_t i = 1; i < kLanes; ++i) all = function(all, lanes[i]);
  return all;
}

std::uint64_t sum_of(const Lanes<std::uint32_t>& lanes) {
  std::uint64_t sum = 0;
  for (const std::uint32_t lane : lanes) sum += lane;
  return sum;
}

template <class T>
double scaled_sum_of(const T* x, std::size_t n) {
  double sum = 0;
  for (std::size_t i = 0; i < n; ++i) sum += std::isfinite(x[i]) ? static_cast<double>(x[i]) * Values::kScale : 0;
  return sum;
}

template <class T>
Integer integer_of(T value) {
  return {std::cmp_less(value, 0), static_cast<std::uint64_t>(value)};  // NOLINT(bugprone-signed-char-misuse): a number
}

// Scans at most kChunk values. Values below `tiny` are denormal.
template <class T>
void scan_floats(const T* x, std::size_t n, T tiny, Values& values) {
  constexpr T kInfinite = std::numeric_limits<T>::infinity();
  Lanes<std::uint32_t> zeros{};
  Lanes<std::uint32_t> nans{};
  Lanes<std::uint32_t> infinities{};
  Lanes<std::uint32_t> small{};
  Lanes<T> min;
  Lanes<T> max;
  Lanes<double> sums{};
  min.fill(kInfinite);
  max.fill(-kInfinite);
  const auto look = [&](std::size_t lane, T value) {
    const T size = std::abs(value);
    const bool finite = size < kInfinite;
    const T above = finite ? value : -kInfinite;
    const T below = finite ? value : kInfinite;
    zeros[lane] += value == 0 ? 1 : 0;
    nans[lane] += std::isnan(value) ? 1 : 0;
    infinities[lane] += size == kInfinite ? 1 : 0;
    small[lane] += size < tiny ? 1 : 0;
    min[lane] = below < min[lane] ? below : min[lane];
    max[lane] = above > max[lane] ? above : max[lane];
    sums[lane] += static_cast<double>(finite ? value : T{0});
  };
  const std::size_t whole = n / kLanes * kLanes;
  for (std::size_t i = 0; i < whole; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) look(lane, x[i + lane]);
  }
  for (std::size_t i = whole; i < n; ++i) look(i - whole, x[i]);
  Values found;
  found.integers = false;
  found.count = n;
  found.zeros = sum_of(zeros);
  found.nans = sum_of(nans);
  found.infinities = sum_of(infinities);
  found.denormals = sum_of(small) - (tiny > 0 ? found.zeros : 0);
  found.finite = n - found.nans - found.infinities;
  found.sum = fold(sums, [](double a, double b) { return a + b; });
  found.scaled_sum = std::isfinite(found.sum) ? found.sum * Values::kScale : scaled_sum_of(x, n);
  found.min = static_cast<double>(fold(min, [](T a, T b) { return std::min(a, b); }));
  found.max = static_cast<double>(fold(max, [](T a, T b) { return std::max(a, b); }));
  values.add(found);
}

// Not on Windows: GCC does not align the stack for these vectors there (GCC bug 54412).
#if defined(__x86_64__) && defined(__GNUC__) && !defined(_WIN32)
bool has_long_vectors() { return __builtin_cpu_supports("avx2") != 0; }
#define CLI_LONG_VECTORS __attribute__((target("avx2"), flatten))
#else
bool has_long_vectors() { return false; }
#define CLI_LONG_VECTORS
#endif

// Same loop, compiled for AVX2. The results are identical.
template <class T>
CLI_LONG_VECTORS void scan_floats_by_long_vectors(const T* x, std::size_t n, T tiny, Values& values) {
  scan_floats(x, n, tiny, values);
}

template <class T>
void scan_integers(std::span<const std::byte> bytes, Values& values) {
  std::array<T, kChunk> x;
  for (std::size_t at = 0; at < bytes.size(); at += sizeof x) {
    const std::size_t n = std::min(sizeof x, bytes.size() - at) / sizeof(T);
    std::memcpy(x.data(), bytes.data() + at, n * sizeof(T));
    T min = std::numeric_limits<T>::max();
    T max = std::numeric_limits<T>::min();
    std::uint32_t zeros = 0;
    Lanes<double> sums{};
    for (std::size_t i = 0; i < n; ++i) {
      min = std::min(min, x[i]);
      max = std::max(max, x[i]);
      zeros += x[i] == 0 ? 1 : 0;
    }
    for (std::size_t i = 0; i < n; ++i) sums[i % kLanes] += static_cast<double>(x[i]);
    Values found;
    found.count = found.finite = n;
    found.zeros = zeros;
    found.sum = fold(sums, [](double a, double b) { return a + b; });
    found.min = static_cast<double>(min);
    found.max = static_cast<double>(max);
    found.scaled_sum = found.sum * Values::kScale;
    found.least = integer_of(min);
    found.largest = integer_of(max);
    values.add(found);
  }
}

const st::DtypeInfo& info_of(Dtype dtype) { return st::info(static_cast<st::Dtype>(dtype)); }

template <class T>
void scan_converted(Dtype from, std::span<const std::byte> bytes, T tiny, Values& values) {
  std::array<T, kChunk> x;
  const auto scan = has_long_vectors() ? scan_floats_by_long_vectors<T> : scan_floats<T>;
  const std::size_t element = safetensors::bits(from) / 8;
  for (std::size_t at = 0; at < bytes.size(); at += kChunk * element) {
    const std::size_t n = std::min(kChunk, (bytes.size() - at) / element);
    safetensors::convert(from, bytes.data() + at, safetensors::dtype_of<T>(), x.data(), n);
    scan(x.data(), n, tiny, values);
  }
}

void scan_doubles(std::span<const std::byte> bytes, Values& values) {
  scan_converted(Dtype::F64, bytes, info_of(Dtype::F64).smallest_normal, values);
}

// Scans both parts of each number.
void scan_complex(std::span<const std::byte> bytes, Values& values) {
  scan_converted(Dtype::F32, bytes, static_cast<float>(info_of(Dtype::C64).smallest_normal), values);
}

// Dtypes that are scanned directly, not converted to F32.
struct Scan {
  Dtype of;
  void (*scan)(std::span<const std::byte> bytes, Values& values);
};
constexpr std::array kScans{
    Scan{Dtype::BOOL, scan_integers<std::uint8_t>},
    Scan{Dtype::U8, scan_integers<std::uint8_t>},
    Scan{Dtype::I8, scan_integers<std::int8_t>},
    Scan{Dtype::U16, scan_integers<std::uint16_t>},
    Scan{Dtype::I16, scan_integers<std::int16_t>},
    Scan{Dtype::U32, scan_integers<std::uint32_t>},
    Scan{Dtype::I32, scan_integers<std::int32_t>},
    Scan{Dtype::U64, scan_integers<std::uint64_t>},
    Scan{Dtype::I64, scan_integers<std::int64_t>},
    Scan{Dtype::F64, scan_doubles},
    Scan{Dtype::C64, scan_complex},
};

constexpr const Scan* scan_of(Dtype dtype) {
  const auto found = std::find_if(kScans.begin(), kScans.end(), [dtype](const Scan& scan) { return scan.of == dtype; });
  return found == kScans.end() ? nullptr : &*found;
}

constexpr bool every_dtype_is_scanned() {
  return std::all_of(st::kDtypes.begin(), st::kDtypes.end(), [](const st::DtypeInfo& each) {
    return each.bits < 8 || each.convertible || scan_of(static_cast<Dtype>(each.dtype)) != nullptr;
  });
}
static_assert(every_dtype_is_scanned(), "kScans lacks a dtype that st_convert does not convert");

}  // namespace

void Values::add(const Values& other) {
  integers = integers && other.integers;
  count += other.count;
  zeros += other.zeros;
  nans += other.nans;
  infinities += other.infinities;
  denormals += other.denormals;
  finite += other.finite;
  sum += other.sum;
  scaled_sum += other.scaled_sum;
  min = std::min(min, other.min);
  max = std::max(max, other.max);
  least = std::min(least, other.least);
  largest = std::max(largest, other.largest);
}

double Values::mean() const {
  if (finite == 0) return 0;
  const auto n = static_cast<double>(finite);
  return std::clamp(std::isfinite(sum) ? sum / n : scaled_sum / n / kScale, min, max);
}

bool is_convertible(Dtype dtype) { return info_of(dtype).convertible; }

std::vector<std::string> convertible_names() {
  std::vector<st::DtypeInfo> found;
  std::copy_if(st::kDtypes.begin(), st::kDtypes.end(), std::back_inserter(found),
               [](const st::DtypeInfo& dtype) { return dtype.convertible; });
  std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.bits > b.bits; });
  std::vector<std::string> names;
  names.reserve(found.size());
  for (const st::DtypeInfo& dtype : found) names.emplace_back(dtype.name);
  return names;
}

std::string names_of_convertible() {
  std::string all;
  for (const std::string& name : convertible_names()) all += (all.empty() ? "" : ", ") + name;
  return all;
}

bool is_float(Dtype dtype) { return is_convertible(dtype) || dtype == Dtype::C64; }

bool has_values(Dtype dtype) { return dtype != Dtype::UNKNOWN && safetensors::bits(dtype) >= 8; }

void add_values(Dtype dtype, std::span<const std::byte> bytes, Values& values) {
  if (const Scan* const known = scan_of(dtype)) return known->scan(bytes, values);
  scan_converted(dtype, bytes, static_cast<float>(info_of(dtype).smallest_normal), values);
}

}  // namespace cli
