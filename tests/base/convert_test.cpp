// Compares conversions with a slow oracle: the value of each bit pattern by definition, and the nearest pattern by
// search. reference/convert.py compares with ml_dtypes and torch.
// SPDX-License-Identifier: Apache-2.0
#include "base/convert.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "../format/guarded_memory.hpp"
#include "base/error.hpp"

namespace st::convert_test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

struct Format {
  Dtype dtype;
  int exponent_bits;
  int mantissa_bits;
  int bias;
  bool infinities;    // all ones in the exponent
  std::uint32_t nan;  // the only one, or 0
};

const std::vector<Format> kFormats{
    {Dtype::F16, 5, 10, 15, true, 0},           {Dtype::BF16, 8, 7, 127, true, 0},
    {Dtype::F8_E4M3, 4, 3, 7, false, 0x7F},     {Dtype::F8_E5M2, 5, 2, 15, true, 0},
    {Dtype::F8_E4M3FNUZ, 4, 3, 8, false, 0x80}, {Dtype::F8_E5M2FNUZ, 5, 2, 16, false, 0x80}};

std::string name_of(const testing::TestParamInfo<Format>& format) { return std::string(info(format.param.dtype).name); }

// Their elements are packed, and only converted from.
const std::vector<Format> kPacked{
    {Dtype::F4, 2, 1, 1, false, 0}, {Dtype::F6_E2M3, 2, 3, 1, false, 0}, {Dtype::F6_E3M2, 3, 2, 3, false, 0}};

double value_of(const Format& format, std::uint32_t pattern) {
  const std::uint32_t sign = 1U << (format.exponent_bits + format.mantissa_bits);
  const std::uint32_t magnitude = pattern & (sign - 1);
  const auto exponent = static_cast<int>(magnitude >> format.mantissa_bits);
  const auto mantissa = static_cast<double>(magnitude & ((1U << format.mantissa_bits) - 1));
  if (format.nan != 0 && (pattern == format.nan || (format.nan < sign && magnitude == format.nan))) return kNan;
  const double scaled = std::ldexp(mantissa, -format.mantissa_bits);
  double value = exponent == 0 ? std::ldexp(scaled, 1 - format.bias) : std::ldexp(1 + scaled, exponent - format.bias);
  if (format.infinities && exponent == (1 << format.exponent_bits) - 1) value = mantissa == 0 ? kInfinity : kNan;
  return (pattern & sign) != 0 ? -value : value;
}

// As in files.
template <class T>
std::array<std::byte, sizeof(T)> little_endian(T value) {
  auto bytes = std::bit_cast<std::array<std::byte, sizeof(T)>>(value);
  if constexpr (std::endian::native == std::endian::big) std::reverse(bytes.begin(), bytes.end());
  return bytes;
}

template <class To = std::uint32_t, class T>
To converted(T value, Dtype from, Dtype to) {
  std::array<std::byte, sizeof(To)> bytes{};
  convert(from, little_endian(value).data(), to, bytes.data(), 1);
  return std::bit_cast<To>(little_endian(bytes));
}

// Same as numpy, ml_dtypes and torch: a double is first rounded to a float, unless the target is F16.
double rounded_before(double value, Dtype target) {
  return target == Dtype::F16 ? value : static_cast<double>(static_cast<float>(value));
}

class EachFormat : public testing::TestWithParam<Format> {
 protected:
  // The positive patterns in order, and then the next one, which is infinity or NaN.
  void SetUp() override {
    const Format& format = GetParam();
    for (std::uint32_t pattern = 0; pattern < 1U << (format.exponent_bits + format.mantissa_bits); ++pattern) {
      const double value = value_of(format, pattern);
      if (std::isfinite(value)) positive_.push_back(value);
    }
    const std::size_t last = positive_.size() - 1;
    const auto top = static_cast<std::uint32_t>(last);
    const int exponent = std::max(1, static_cast<int>(top >> format.mantissa_bits)) - format.bias;
    positive_.push_back(positive_[last] + std::ldexp(1, exponent - format.mantissa_bits));
  }

  // Returns the nearest pattern for a finite number >= 0; ties to even.
  std::size_t nearest(double value) const {
    const auto above = std::lower_bound(positive_.begin(), positive_.end(), value);
    if (above == positive_.end()) return positive_.size() - 1;
    const auto i = static_cast<std::size_t>(above - positive_.begin());
    if (*above == value) return i;
    const double up = *above - value;
    const double down = value - positive_[i - 1];
    return up < down || (up == down && i % 2 == 0) ? i : i - 1;
  }

  std::uint32_t expected(double value) const {
    const Format& format = GetParam();
    const std::uint32_t sign = 1U << (format.exponent_bits + format.mantissa_bits);
    const bool fnuz = format.nan == sign;
    const auto beyond = static_cast<std::uint32_t>(positive_.size() - 1);
    const std::size_t found = std::isinf(value) ? beyond : nearest(std::fabs(value));
    if (fnuz && found == beyond) return sign;
    if (fnuz && found == 0) return 0;
    return static_cast<std::uint32_t>(found) | (std::signbit(value) ? sign : 0);
  }

  std::vector<double> positive_;
};

TEST_P(EachFormat, HasTheValueOfEachPattern) {
  const Format& format = GetParam();
  for (std::uint32_t pattern = 0; pattern < 1U << info(format.dtype).bits; ++pattern) {
    const double value = value_of(format, pattern);
    const auto as_float = converted<float>(pattern, format.dtype, Dtype::F32);
    const auto as_double = converted<double>(pattern, format.dtype, Dtype::F64);
    if (std::isnan(value)) {
      ASSERT_TRUE(std::isnan(as_float) && std::isnan(as_double)) << pattern;
      ASSERT_EQ(std::signbit(as_float), (pattern >> (info(format.dtype).bits - 1)) != 0) << pattern;
    } else {
      ASSERT_EQ(as_float, value) << pattern;
      ASSERT_EQ(as_double, value) << pattern;
      ASSERT_EQ(std::signbit(as_float), std::signbit(value)) << pattern;
      ASSERT_EQ(converted(as_float, Dtype::F32, format.dtype), pattern);
      ASSERT_EQ(converted(value, Dtype::F64, format.dtype), pattern);
    }
  }
}

TEST_P(EachFormat, RoundsToNearestEvenAtEachBorder) {
  const Dtype dtype = GetParam().dtype;
  for (std::size_t i = 0; i + 1 < positive_.size(); ++i) {
    const double middle = positive_[i] + (positive_[i + 1] - positive_[i]) / 2;
    for (const double each : {positive_[i], middle}) {
      for (const double side : {each, std::nextafter(each, -kInfinity), std::nextafter(each, kInfinity)}) {
        for (const double value : {side, -side}) {
          ASSERT_EQ(converted(value, Dtype::F64, dtype), expected(rounded_before(value, dtype))) << value;
        }
      }
      const auto exact = static_cast<float>(each);
      const float infinity = std::numeric_limits<float>::infinity();
      for (const float side : {exact, std::nextafter(exact, -infinity), std::nextafter(exact, infinity)}) {
        for (const float value : {side, -side}) {
          ASSERT_EQ(converted(value, Dtype::F32, dtype), expected(value)) << value;
        }
      }
    }
  }
}

TEST_P(EachFormat, RoundsRandomFloatsToTheNearest) {
  const Dtype dtype = GetParam().dtype;
  std::mt19937 random(1);
  for (int i = 0; i < 20000; ++i) {
    const auto bits = static_cast<std::uint32_t>(random());
    const auto value = std::bit_cast<float>(bits);
    if (std::isnan(value)) continue;
    ASSERT_EQ(converted(value, Dtype::F32, dtype), expected(value)) << value;
    const double wide = std::ldexp(static_cast<double>(random()) + 0.5, static_cast<int>(random() % 60) - 60);
    ASSERT_EQ(converted(wide, Dtype::F64, dtype), expected(rounded_before(wide, dtype))) << wide;
  }
}

TEST_P(EachFormat, HasItsSmallestNormalNumberInTheTable) {
  const Format& format = GetParam();
  EXPECT_EQ(info(format.dtype).smallest_normal, std::ldexp(1, 1 - format.bias));
}

INSTANTIATE_TEST_SUITE_P(Convert, EachFormat, testing::ValuesIn(kFormats), name_of);

// A copy of bytes that ends at an unreadable page.
class Guarded {
 public:
  explicit Guarded(std::span<const std::byte> bytes)
      : memory_(bytes.size()), begin_(reinterpret_cast<std::byte*>(memory_.end()) - bytes.size()) {
    std::copy(bytes.begin(), bytes.end(), begin_);
  }
  const std::byte* data() const { return begin_; }

 private:
  format::GuardedMemory memory_;
  std::byte* begin_;
};

// Packs bit by bit, the lowest bit of the first code first. Exactly as long as the codes need. Unused bits are set.
Guarded packed(const std::vector<std::uint32_t>& codes, unsigned bits) {
  std::vector<std::byte> bytes((codes.size() * bits + 7) / 8, std::byte{0xFF});
  for (std::size_t i = 0; i < codes.size() * bits; ++i) {
    const std::byte bit = std::byte{1} << i % 8;
    if ((codes[i / bits] >> i % bits & 1) == 0) bytes[i / 8] &= ~bit;
  }
  return Guarded(bytes);
}

std::vector<std::uint32_t> codes_of(const Format& format, std::size_t count) {
  std::vector<std::uint32_t> codes(count);
  for (std::size_t i = 0; i < count; ++i) {
    codes[i] = static_cast<std::uint32_t>((i + i / 67) % (std::size_t{1} << info(format.dtype).bits));
  }
  return codes;
}

template <class T>
T element(const std::vector<std::byte>& bytes, std::size_t i) {
  std::array<std::byte, sizeof(T)> taken{};
  std::memcpy(taken.data(), &bytes[i * sizeof(T)], sizeof(T));
  return std::bit_cast<T>(little_endian(std::bit_cast<T>(taken)));
}

const std::vector<std::size_t> kCounts{0,  1,  2,  3,  4,   5,    7,    8,    9,    15,   16,
                                       31, 32, 33, 67, 100, 1023, 1024, 1025, 1026, 1027, 2049};

class EachPacked : public testing::TestWithParam<Format> {};

TEST_P(EachPacked, HasTheValueOfEachCode) {
  const Format& format = GetParam();
  std::vector<std::uint32_t> codes(std::size_t{1} << info(format.dtype).bits);
  for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<std::uint32_t>(i);
  const Guarded bytes = packed(codes, info(format.dtype).bits);
  std::vector<std::byte> floats(codes.size() * sizeof(float));
  convert(format.dtype, bytes.data(), Dtype::F32, floats.data(), codes.size());
  for (const std::uint32_t code : codes) {
    ASSERT_EQ(element<float>(floats, code), value_of(format, code)) << code;
    ASSERT_EQ(std::signbit(element<float>(floats, code)), code >= codes.size() / 2) << code;
  }
  for (const DtypeInfo& to : kDtypes) {
    if (!to.convertible) continue;
    std::vector<std::byte> direct(codes.size() * to.bits / 8);
    std::vector<std::byte> through_floats(direct.size());
    convert(format.dtype, bytes.data(), to.dtype, direct.data(), codes.size());
    convert(Dtype::F32, floats.data(), to.dtype, through_floats.data(), codes.size());
    ASSERT_EQ(direct, through_floats) << to.name;
  }
}

TEST_P(EachPacked, AnyCountReadsNoByteMore) {
  const Format& format = GetParam();
  for (const std::size_t count : kCounts) {
    const std::vector<std::uint32_t> codes = codes_of(format, count);
    const Guarded bytes = packed(codes, info(format.dtype).bits);
    std::vector<std::byte> floats(count * sizeof(float));
    std::vector<std::byte> doubles(count * sizeof(double));
    convert(format.dtype, bytes.data(), Dtype::F32, floats.data(), count);
    convert(format.dtype, bytes.data(), Dtype::F64, doubles.data(), count);
    for (std::size_t i = 0; i < count; ++i) {
      ASSERT_EQ(element<float>(floats, i), value_of(format, codes[i])) << i << " of " << count;
      ASSERT_EQ(element<double>(doubles, i), value_of(format, codes[i])) << i << " of " << count;
    }
  }
}

// With the scales of MX, one product is exact, and the other one is by 1.
TEST_P(EachPacked, IsMultipliedByThePowerOfTwoOfItsBlock) {
  const Format& format = GetParam();
  for (const std::size_t count : kCounts) {
    const std::vector<std::uint32_t> codes = codes_of(format, count);
    const Guarded bytes = packed(codes, info(format.dtype).bits);
    std::vector<std::byte> scales((count + 31) / 32);
    for (std::size_t i = 0; i < scales.size(); ++i) scales[i] = static_cast<std::byte>(i * 85 % 256);
    std::vector<std::byte> floats(count * sizeof(float));
    convert_scaled(format.dtype, bytes.data(), Dtype::F8_E8M0, Guarded(scales).data(), 32, nullptr, Dtype::F32,
                   floats.data(), count);
    for (std::size_t i = 0; i < count; ++i) {
      const int power = std::to_integer<int>(scales[i / 32]);
      const auto found = element<float>(floats, i);
      if (power == 255) {
        ASSERT_TRUE(std::isnan(found)) << i;
      } else {
        ASSERT_EQ(found, static_cast<float>(std::ldexp(value_of(format, codes[i]), power - 127)))
            << i << " of " << count;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Convert, EachPacked, testing::ValuesIn(kPacked), name_of);

// Every 16-bit pattern, and F32 and F64 with every exponent.
std::vector<std::byte> many_values(std::size_t count) {
  std::mt19937 random(1);
  std::vector<std::byte> bytes(count * sizeof(double));
  for (std::size_t i = 0; i < bytes.size(); i += sizeof(std::uint32_t)) {
    const auto pattern = static_cast<std::uint32_t>(random());
    std::memcpy(&bytes[i], &pattern, sizeof pattern);
  }
  for (std::size_t i = 0; i < 1U << 16; ++i) {
    const auto pattern = static_cast<std::uint16_t>(i);
    std::memcpy(&bytes[i * sizeof pattern], &pattern, sizeof pattern);
  }
  return bytes;
}

TEST(Convert, GivesTheSameByEveryVectorAndOneByOne) {
  constexpr std::size_t kCount = (1U << 16) + 13;
  const Guarded values(many_values(kCount));
  std::vector<Dtype> dtypes;
  for (const DtypeInfo& each : kDtypes) {
    if (each.convertible) dtypes.push_back(each.dtype);
  }
  EXPECT_EQ(dtypes.size(), kFormats.size() + 3);  // F32, F64 and F8_E8M0
  for (const Dtype from : dtypes) {
    for (const Dtype to : dtypes) {
      const std::size_t width = info(to).bits / 8;
      std::vector<std::byte> best(kCount * width);
      std::vector<std::byte> plain(kCount * width);
      std::vector<std::byte> single(kCount * width);
      convert(from, values.data(), to, best.data(), kCount);
      convert(from, values.data(), to, plain.data(), kCount, Vectors::of_every_processor);
      for (std::size_t i = 0; i < kCount; ++i) {
        convert(from, values.data() + i * info(from).bits / 8, to, &single[i * width], 1, Vectors::of_every_processor);
      }
      EXPECT_TRUE(best == plain) << info(from).name << " to " << info(to).name;
      EXPECT_TRUE(best == single) << info(from).name << " to " << info(to).name;
      EXPECT_TRUE(from != to || std::equal(best.begin(), best.end(), values.data())) << info(from).name;
    }
  }
}

// Scales of the dtype from random bits, and a global scale whose product with them is rounded.
TEST(Convert, MultipliesByBothScalesInThisOrder) {
  constexpr float kGlobal = 0.3F;
  const std::array<std::byte, sizeof(float)> global = little_endian(kGlobal);
  const std::vector<std::byte> all = many_values(1U << 16);
  const std::vector<std::byte> values(all.begin() + (1U << 17), all.end());  // random bits
  std::vector<Dtype> scale_dtypes;
  for (const DtypeInfo& each : kDtypes) {
    if (each.convertible) scale_dtypes.push_back(each.dtype);
  }
  for (const Dtype scale_dtype : scale_dtypes) {
    for (const Dtype to : {Dtype::F32, Dtype::BF16, Dtype::F16}) {
      for (const std::size_t block : std::vector<std::size_t>{1, 3, 16, 1000, 1024, 2999, SIZE_MAX / 2 + 1, SIZE_MAX}) {
        constexpr std::size_t kCount = 3000;
        const std::size_t blocks = (kCount - 1) / block + 1;
        const Guarded scales(std::span{values}.first(blocks * info(scale_dtype).bits / 8));
        const std::size_t width = info(to).bits / 8;
        std::vector<std::byte> found(kCount * width);
        convert_scaled(Dtype::F4, values.data(), scale_dtype, scales.data(), block, global.data(), to, found.data(),
                       kCount);
        std::vector<std::byte> expected(found.size());
        for (std::size_t i = 0; i < kCount; ++i) {
          std::array<std::byte, sizeof(float)> scale{};
          const std::size_t size = info(scale_dtype).bits / 8;
          convert(scale_dtype, scales.data() + i / block * size, Dtype::F32, scale.data(), 1);
          const std::uint32_t code = std::to_integer<std::uint32_t>(values[i / 2]) >> i % 2 * 4 & 15;
          const volatile float factor = std::bit_cast<float>(little_endian(std::bit_cast<float>(scale))) * kGlobal;
          const volatile float product = static_cast<float>(value_of(kPacked[0], code)) * factor;
          convert(Dtype::F32, little_endian(float{product}).data(), to, &expected[i * width], 1);
          const auto as_nan = [&](std::vector<std::byte>& bytes) {  // whose bits are unspecified
            std::fill_n(&bytes[i * width], width, std::byte{0xFF});
          };
          if (std::isnan(product)) {
            std::array<std::byte, sizeof(double)> wide{};
            convert(to, &found[i * width], Dtype::F64, wide.data(), 1);
            ASSERT_TRUE(std::isnan(std::bit_cast<double>(little_endian(std::bit_cast<double>(wide)))));
            as_nan(found);
            as_nan(expected);
          }
        }
        ASSERT_EQ(found, expected) << info(scale_dtype).name << " to " << info(to).name << " by " << block;
      }
    }
  }
}

// With a single rounding, the first would be 0x3F81 and the second 0x39.
TEST(Convert, ADoubleBecomesAFloatBeforeItBecomesWhatIsNoF16) {
  EXPECT_EQ(converted(1 + std::ldexp(1, -8) + std::ldexp(1, -40), Dtype::F64, Dtype::BF16), 0x3F80U);
  EXPECT_EQ(converted(1 + std::ldexp(1, -4) + std::ldexp(1, -40), Dtype::F64, Dtype::F8_E4M3), 0x38U);
  EXPECT_EQ(converted(1 + std::ldexp(1, -11) + std::ldexp(1, -40), Dtype::F64, Dtype::F16), 0x3C01U);
}

// Same as numpy, whose F16 keeps the payload, and ml_dtypes, whose F8_E5M2 does not.
TEST(Convert, OnlyF16KeepsThePayloadOfNan) {
  for (const std::uint32_t sign : {0U, 1U}) {
    for (std::uint32_t payload = 1; payload < 1U << 10; ++payload) {
      const std::uint32_t half = sign << 15 | 0x7C00 | payload;
      const std::uint32_t wide = sign << 31 | 0x7F800000 | payload << 13;
      ASSERT_EQ(converted(half, Dtype::F16, Dtype::F32), wide) << half;
      ASSERT_EQ(converted(wide, Dtype::F32, Dtype::F16), half) << half;
    }
    // F16 has no bit of this payload, but must not become infinity.
    ASSERT_EQ(converted(sign << 31 | 0x7F800001, Dtype::F32, Dtype::F16), sign << 15 | 0x7C01);
    for (std::uint32_t payload = 1; payload < 1U << 2; ++payload) {
      const std::uint32_t wide = sign << 31 | 0x7F800000 | payload << 21;
      ASSERT_EQ(converted(sign << 7 | 0x7C | payload, Dtype::F8_E5M2, Dtype::F32), sign << 31 | 0x7FC00000) << payload;
      ASSERT_EQ(converted(wide, Dtype::F32, Dtype::F8_E5M2), sign << 7 | 0x7E) << payload;
    }
  }
}

TEST(Convert, RejectsDtypesWithoutElementsToo) {
  const auto scaled = [](Dtype from, Dtype to) {
    convert_scaled(from, nullptr, Dtype::F32, nullptr, 32, nullptr, to, nullptr, 0);
  };
  EXPECT_THROW(scaled(Dtype::BOOL, Dtype::F32), Error);
  EXPECT_THROW(scaled(Dtype::F4, Dtype::F4), Error);
  EXPECT_NO_THROW(scaled(Dtype::F4, Dtype::F16));
}

TEST(Convert, PowersOfTwoAreRoundedUpInTheMiddle) {
  struct Row {
    float value;
    std::uint32_t expected;
  };
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<Row> rows{{1, 127},
                              {2, 128},
                              {1.5F, 128},
                              {std::nextafter(1.5F, 0.0F), 127},
                              {3, 129},
                              {std::ldexp(1.0F, -127), 0},
                              {std::nextafter(std::ldexp(1.0F, -127), 1.0F), 1},
                              {std::ldexp(1.5F, -126), 2},
                              {std::nextafter(std::ldexp(1.5F, -126), 0.0F), 1},
                              {std::ldexp(1.0F, -149), 0},
                              {0.0F, 255},
                              {-0.0F, 255},
                              {-1, 255},
                              {infinity, 255},
                              {-infinity, 255},
                              {std::numeric_limits<float>::quiet_NaN(), 255},
                              {std::ldexp(1.0F, 127), 254},
                              {std::ldexp(1.5F, 127), 255},
                              {std::nextafter(std::ldexp(1.5F, 127), 0.0F), 254}};
  for (const auto& [value, expected] : rows) {
    EXPECT_EQ(converted(value, Dtype::F32, Dtype::F8_E8M0), expected) << value;
    EXPECT_EQ(converted(static_cast<double>(value), Dtype::F64, Dtype::F8_E8M0), expected) << value;
  }
  for (std::uint32_t i = 0; i < 255; ++i) {
    EXPECT_EQ(converted<float>(i, Dtype::F8_E8M0, Dtype::F32), std::ldexp(1.0F, static_cast<int>(i) - 127));
  }
  EXPECT_TRUE(std::isnan(converted<float>(255U, Dtype::F8_E8M0, Dtype::F32)));
}

}  // namespace
}  // namespace st::convert_test
