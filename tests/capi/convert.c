/* What st_convert accepts and rejects, at every alignment and length. base/convert_test checks the values, and
 * reference/convert.py compares them with ml_dtypes.
 * SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include <math.h>

static const st_dtype kFloats[] = {ST_F64,     ST_F32,     ST_F16,         ST_BF16,       ST_F8_E4M3,
                                   ST_F8_E5M2, ST_F8_E8M0, ST_F8_E4M3FNUZ, ST_F8_E5M2FNUZ};
enum { FLOATS = sizeof kFloats / sizeof kFloats[0], ROOM = 4096 * 8 + 16 };

/* 1 and -0.5 in the lowest bits; the other bits are ignored. */
static const struct {
  st_dtype dtype;
  unsigned char bytes[2];
} kPacked[] = {{ST_F4, {0x92, 0xFF}}, {ST_F6_E2M3, {0x08, 0xF9}}, {ST_F6_E3M2, {0x0C, 0xFA}}};
enum { PACKED = sizeof kPacked / sizeof kPacked[0] };

static int is_packed(st_dtype dtype) { return dtype == ST_F4 || dtype == ST_F6_E2M3 || dtype == ST_F6_E3M2; }

static int is_float(st_dtype dtype) {
  size_t i;
  for (i = 0; i < FLOATS; ++i) {
    if (kFloats[i] == dtype) return 1;
  }
  return 0;
}

static void only_floats_are_converted_and_to_whole_bytes(void) {
  double from = 1, to = 0;
  st_dtype a, b;
  for (a = -2; a <= ST_F4 + 2; ++a) {
    for (b = -2; b <= ST_F4 + 2; ++b) {
      st_error err = ST_INIT(st_error);
      const st_status status = st_convert(a, &from, b, &to, 1, &err);
      CHECK_FOR(st_dtype_name(a),
                status == ((is_float(a) || is_packed(a)) && is_float(b) ? ST_OK : ST_ERR_UNSUPPORTED));
      if (status != ST_OK) {
        CHECK_FOR(err.message,
                  strstr(err.message, st_dtype_name(a)) != NULL && strstr(err.message, st_dtype_name(b)) != NULL);
        CHECK_FOR(err.message, st_convert(a, NULL, b, NULL, 0, NULL) == ST_ERR_UNSUPPORTED);
      }
    }
  }
  CHECK(st_convert(INT32_MAX, &from, ST_F32, &to, 1, NULL) == ST_ERR_UNSUPPORTED);
  CHECK(st_convert(ST_F32, &from, INT32_MIN, &to, 1, NULL) == ST_ERR_UNSUPPORTED);
}

static void wrong_arguments(void) {
  st_error err = ST_INIT(st_error);
  float value = 1;
  CHECK(st_convert(ST_F32, NULL, ST_F16, &value, 1, &err) == ST_ERR_ARGUMENT && strstr(err.message, "src") != NULL);
  CHECK(st_convert(ST_F32, &value, ST_F16, NULL, 1, &err) == ST_ERR_ARGUMENT && strstr(err.message, "dst") != NULL);
  CHECK(st_convert(ST_F32, NULL, ST_F16, NULL, 0, NULL) == ST_OK);
  CHECK(st_convert(ST_F32, NULL, ST_F32, NULL, 0, NULL) == ST_OK);
  CHECK(st_convert(ST_F16, &value, ST_F64, &value, SIZE_MAX, &err) == ST_ERR_OVERFLOW);
  CHECK(st_convert(ST_F16, &value, ST_F64, &value, SIZE_MAX / 8 + 1, &err) == ST_ERR_OVERFLOW);
}

/* All pairs of dtypes, every length up to some vectors and blocks, and each alignment: nothing outside of dst is written,
 * and every element has the same value as if converted alone. */
static void any_length_and_alignment(void) {
  static const size_t lengths[] = {1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 100, 1023, 1024, 1025, 2049, 4096};
  static unsigned char from[ROOM], to[ROOM], one[16];
  size_t a, b, k, i;
  for (i = 0; i < sizeof from; ++i) from[i] = (unsigned char)(i * 37 + i / 251);
  for (a = 0; a < FLOATS; ++a) {
    for (b = 0; b < FLOATS; ++b) {
      const size_t from_width = st_dtype_bits(kFloats[a]) / 8, to_width = st_dtype_bits(kFloats[b]) / 8;
      for (k = 0; k < sizeof lengths / sizeof lengths[0]; ++k) {
        const size_t n = lengths[k], at = (k * 3 + a) % 8, to_at = (k * 5 + b) % 8, end = to_at + n * to_width;
        memset(to, 0xA5, sizeof to);
        CHECK(st_convert(kFloats[a], from + at, kFloats[b], to + to_at, n, NULL) == ST_OK);
        for (i = 0; i < to_at; ++i) CHECK(to[i] == 0xA5);
        for (i = end; i < end + 8; ++i) CHECK(to[i] == 0xA5);
        for (i = 0; i < n; i += 1 + n / 9) {
          CHECK(st_convert(kFloats[a], from + at + i * from_width, kFloats[b], one, 1, NULL) == ST_OK);
          CHECK_FOR(st_dtype_name(kFloats[b]), memcmp(one, to + to_at + i * to_width, to_width) == 0);
        }
      }
    }
  }
}

/* In bytes, for big-endian machines. */
static void elements_are_little_endian(void) {
  const unsigned char f16[] = {0x00, 0x3C, 0x00, 0xC1}; /* 1, -2.5 */
  const unsigned char f32[] = {0x00, 0x00, 0x80, 0x3F, 0x00, 0x00, 0x20, 0xC0};
  const unsigned char f64[] = {0, 0, 0, 0, 0, 0, 0xF0, 0x3F, 0, 0, 0, 0, 0, 0, 0x04, 0xC0};
  const unsigned char bf16[] = {0x80, 0x3F, 0x20, 0xC0};
  const struct {
    st_dtype dtype;
    const unsigned char *bytes;
    size_t size;
  } kForms[] = {{ST_F16, f16, 4}, {ST_F32, f32, 8}, {ST_F64, f64, 16}, {ST_BF16, bf16, 4}};
  size_t a, b;
  for (a = 0; a < 4; ++a) {
    for (b = 0; b < 4; ++b) {
      unsigned char got[16] = {0};
      CHECK(st_convert(kForms[a].dtype, kForms[a].bytes, kForms[b].dtype, got, 2, NULL) == ST_OK);
      CHECK_FOR(st_dtype_name(kForms[b].dtype), memcmp(got, kForms[b].bytes, kForms[b].size) == 0);
    }
  }
}

/* Converts between the byte order of the machine and the order of elements. */
static void turn(void *elements, size_t n, size_t width) {
  const uint16_t probe = 1;
  unsigned char *const bytes = (unsigned char *)elements;
  size_t i, k;
  if (*(const unsigned char *)&probe == 1) return;
  for (i = 0; i < n; ++i) {
    for (k = 0; k < width / 2; ++k) {
      const unsigned char kept = bytes[i * width + k];
      bytes[i * width + k] = bytes[i * width + width - 1 - k];
      bytes[i * width + width - 1 - k] = kept;
    }
  }
}

static void values_as_the_header_says(void) {
  const float numbers[] = {1.0F, -2.5F, 0.0F, -0.0F, 464.0F, 465.0F, INFINITY, -INFINITY, NAN, 6e-8F, 1e-30F};
  const unsigned char e4m3[] = {0x38, 0xC2, 0x00, 0x80, 0x7E, 0x7F, 0x7F, 0xFF, 0x7F, 0x00, 0x00};
  const unsigned char e5m2[] = {0x3C, 0xC1, 0x00, 0x80, 0x5F, 0x5F, 0x7C, 0xFC, 0x7E, 0x00, 0x00};
  const unsigned char e8m0[] = {0x7F, 0xFF, 0xFF, 0xFF, 0x88, 0x88, 0xFF, 0xFF, 0xFF, 0x67, 0x1B};
  const unsigned char fnuz[] = {0x40, 0xCA, 0x00, 0x00, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00, 0x00};
  const uint16_t f16[] = {0x3C00, 0xC100, 0, 0x8000, 0x5F40, 0x5F44, 0x7C00, 0xFC00, 0x7E00, 1, 0};
  const uint16_t bf16[] = {0x3F80, 0xC020, 0, 0x8000, 0x43E8, 0x43E8, 0x7F80, 0xFF80, 0x7FC0, 0x3381, 0x0DA2};
  unsigned char bytes[11];
  uint16_t words[11];
  double doubles[11];
  float given[11];
  size_t i;
  memcpy(given, numbers, sizeof given);
  turn(given, 11, 4);
  CHECK(st_convert(ST_F32, given, ST_F8_E4M3, bytes, 11, NULL) == ST_OK && memcmp(bytes, e4m3, 11) == 0);
  CHECK(st_convert(ST_F32, given, ST_F8_E5M2, bytes, 11, NULL) == ST_OK && memcmp(bytes, e5m2, 11) == 0);
  CHECK(st_convert(ST_F32, given, ST_F8_E8M0, bytes, 11, NULL) == ST_OK && memcmp(bytes, e8m0, 11) == 0);
  CHECK(st_convert(ST_F32, given, ST_F8_E4M3FNUZ, bytes, 11, NULL) == ST_OK && memcmp(bytes, fnuz, 11) == 0);
  CHECK(st_convert(ST_F32, given, ST_F16, words, 11, NULL) == ST_OK);
  turn(words, 11, 2);
  CHECK(memcmp(words, f16, sizeof f16) == 0);
  CHECK(st_convert(ST_F32, given, ST_BF16, words, 11, NULL) == ST_OK);
  turn(words, 11, 2);
  CHECK(memcmp(words, bf16, sizeof bf16) == 0);
  CHECK(st_convert(ST_F32, given, ST_F64, doubles, 11, NULL) == ST_OK);
  turn(doubles, 11, 8);
  for (i = 0; i < 11; ++i) CHECK(doubles[i] == (double)numbers[i] || i == 8);
}

static void packed_elements_begin_with_the_lowest_bits(void) {
  size_t i, k;
  for (i = 0; i < PACKED; ++i) {
    for (k = 0; k < 4; ++k) {
      unsigned char bytes[8];
      float got[4] = {0};
      memcpy(bytes + k, kPacked[i].bytes, 2);
      CHECK(st_convert(kPacked[i].dtype, bytes + k, ST_F32, got, 2, NULL) == ST_OK);
      turn(got, 4, 4);
      CHECK_FOR(st_dtype_name(kPacked[i].dtype), got[0] == 1 && got[1] == -0.5F && got[2] == 0);
    }
    CHECK(st_convert(kPacked[i].dtype, NULL, ST_F32, NULL, 0, NULL) == ST_OK);
  }
}

/* The files' own tensors: NVFP4, MX, and FP8 with one scale for all. */
static void scales_multiply_their_blocks(void) {
  static unsigned char f4[18], unaligned[5], e4m3[] = {0x38, 0x40, 0x7F}, e8m0[] = {0x80, 0xFF}, f8[] = {0x38, 0xC2, 0};
  float got[36], one_scale = 0.125F, global = -4;
  uint16_t halves[3];
  size_t i;
  memset(f4, 0x21, sizeof f4); /* 0.5, 1, 0.5, 1, ... */
  turn(&global, 1, 4);
  turn(&one_scale, 1, 4);
  memcpy(unaligned + 1, &global, 4);
  CHECK(st_convert_scaled(ST_F4, f4, ST_F8_E4M3, e4m3, 16, unaligned + 1, ST_F32, got, 36, NULL) == ST_OK);
  turn(got, 36, 4);
  for (i = 0; i < 32; ++i) CHECK(got[i] == (i % 2 == 0 ? -2.0F : -4.0F) * (i < 16 ? 1.0F : 2.0F));
  for (i = 32; i < 36; ++i) CHECK(isnan(got[i]));
  CHECK(st_convert_scaled(ST_F4, f4, ST_F8_E8M0, e8m0, 32, NULL, ST_F32, got, 33, NULL) == ST_OK);
  turn(got, 33, 4);
  CHECK(got[0] == 1 && got[31] == 2 && isnan(got[32]));
  CHECK(st_convert_scaled(ST_F8_E4M3, f8, ST_F32, &one_scale, SIZE_MAX, NULL, ST_F16, halves, 3, NULL) == ST_OK);
  turn(halves, 3, 2);
  CHECK(halves[0] == 0x3000 && halves[1] == 0xB500 && halves[2] == 0);
}

static void wrong_scales(void) {
  unsigned char bytes[8] = {0};
  float out[4];
  st_error err = ST_INIT(st_error);
  st_dtype dtype;
  CHECK(st_convert_scaled(ST_F4, bytes, ST_F32, bytes, 0, NULL, ST_F32, out, 1, &err) == ST_ERR_ARGUMENT &&
        strstr(err.message, "block") != NULL);
  CHECK(st_convert_scaled(ST_F4, NULL, ST_F32, bytes, 1, NULL, ST_F32, out, 1, &err) == ST_ERR_ARGUMENT &&
        strstr(err.message, "src") != NULL);
  CHECK(st_convert_scaled(ST_F4, bytes, ST_F32, NULL, 1, NULL, ST_F32, out, 1, &err) == ST_ERR_ARGUMENT &&
        strstr(err.message, "scales") != NULL);
  CHECK(st_convert_scaled(ST_F4, bytes, ST_F32, bytes, 1, NULL, ST_F32, NULL, 1, &err) == ST_ERR_ARGUMENT &&
        strstr(err.message, "dst") != NULL);
  CHECK(st_convert_scaled(ST_F4, NULL, ST_F32, NULL, 1, NULL, ST_F32, NULL, 0, NULL) == ST_OK);
  CHECK(st_convert_scaled(ST_F4, bytes, ST_F32, bytes, 1, NULL, ST_F32, out, SIZE_MAX, &err) == ST_ERR_OVERFLOW);
  for (dtype = -2; dtype <= ST_F4 + 2; ++dtype) {
    const int from = is_float(dtype) || is_packed(dtype), other = is_float(dtype);
    const st_status expected[] = {ST_ERR_UNSUPPORTED, ST_OK};
    CHECK(st_convert_scaled(dtype, bytes, ST_F32, bytes, 1, NULL, ST_F32, out, 1, NULL) == expected[from]);
    CHECK(st_convert_scaled(ST_F4, bytes, dtype, bytes, 1, NULL, ST_F32, out, 1, NULL) == expected[other]);
    CHECK(st_convert_scaled(ST_F4, bytes, ST_F32, bytes, 1, NULL, dtype, out, 1, NULL) == expected[other]);
    CHECK(st_convert_scaled(ST_F4, NULL, dtype, NULL, 1, NULL, ST_F32, NULL, 0, &err) == expected[other]);
    CHECK(other || strstr(err.message, st_dtype_name(dtype)) != NULL);
  }
}

int main(void) {
  only_floats_are_converted_and_to_whole_bytes();
  wrong_arguments();
  any_length_and_alignment();
  elements_are_little_endian();
  values_as_the_header_says();
  packed_elements_begin_with_the_lowest_bits();
  scales_multiply_their_blocks();
  wrong_scales();
  return test_result();
}
