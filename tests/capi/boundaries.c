/* Tensors that begin at, end at or cross 2^31, 2^32 and 2^63 are read at the right offset, up to a source of 2^64-1 bytes,
 * the largest size. The source stores nothing: it computes every byte from its offset.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>

#include "test.h"

typedef struct huge {
  unsigned char front[8 + 8000 + 1000];
  size_t front_size;
  uint64_t size;
  int beyond; /* reads out of bounds */
} huge;

static unsigned char byte_at(uint64_t offset) {
  return (unsigned char)(offset ^ offset >> 8 ^ offset >> 31 ^ offset >> 32 ^ offset >> 63);
}

static int32_t read_at(void *ctx, uint64_t offset, void *dst, size_t n) {
  huge *given = ctx;
  unsigned char *to = dst;
  size_t i;
  if (offset > given->size || n > given->size - offset) return ++given->beyond;
  for (i = 0; i < n; ++i) to[i] = offset + i < given->front_size ? given->front[offset + i] : byte_at(offset + i);
  return 0;
}

enum { NEAR = 16, HEADER = 8000 };

/* A tensor has less than 2^64 bits, so several are needed to fill the space. */
static size_t add_fill(char *header, size_t at, const char *name, uint64_t begin, uint64_t end) {
  const uint64_t most = (uint64_t)1 << 60;
  unsigned n = 0;
  while (begin < end) {
    const uint64_t stop = end - begin > most ? begin + most : end;
    at += (size_t)sprintf(
        header + at, "\"%s%u\":{\"dtype\":\"U8\",\"shape\":[%" PRIu64 "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]},",
        name, n++, stop - begin, begin, stop);
    begin = stop;
  }
  return at;
}

/* Tensors up to `place`, then 'near' of NEAR bytes, then tensors up to the end of the source. The lengths of the numbers
 * change the header's, and that the numbers: so the header is padded to a fixed length. */
static void make(huge *given, uint64_t place, uint64_t size) {
  char *header = (char *)given->front + 8;
  const uint64_t begin = place - 8 - HEADER, end = size - 8 - HEADER;
  size_t i, at = 1;
  given->beyond = 0;
  for (i = 0; i < 8; ++i) given->front[i] = (unsigned char)((uint64_t)HEADER >> (8 * i));
  memset(header, ' ', HEADER);
  header[0] = '{';
  at = add_fill(header, at, "before", 0, begin);
  at = add_fill(header, at, "after", begin + NEAR, end);
  at += (size_t)sprintf(header + at,
                        "\"near\":{\"dtype\":\"U8\",\"shape\":[%d],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}}",
                        (int)NEAR, begin, begin + NEAR);
  header[at] = ' ';
  CHECK(at < HEADER);
  given->front_size = 8 + HEADER;
  given->size = size;
}

static void read_near(uint64_t place, uint64_t size, const char *name) {
  huge given;
  st_source source = ST_INIT(st_source);
  st_error err = ST_INIT(st_error);
  st_file *out = NULL;
  unsigned char got[NEAR] = {0};
  size_t i;
  make(&given, place, size);
  source.ctx = &given;
  source.size = size;
  source.read_at = read_at;
  CHECK_FOR(name, st_open_source(&source, NULL, &out, &err) == ST_OK);
  if (out == NULL) {
    fprintf(stderr, "  %s: %s\n", name, err.message);
    return;
  }
  const st_tensor *near = st_get_tensor(out, "near");
  CHECK_FOR(name, st_get_shard_size(out, 0) == size);
  CHECK_FOR(name, st_tensor_offset(near) == place && st_tensor_bytes(near) == NEAR);
  CHECK_FOR(name, st_tensor_read(near, got, sizeof got, &err) == ST_OK);
  for (i = 0; i < NEAR; ++i) CHECK_FOR(name, got[i] == byte_at(place + i));
  CHECK_FOR(name, st_read_shard(out, 0, size - NEAR, got, NEAR, NULL) == ST_OK && got[NEAR - 1] == byte_at(size - 1));
  CHECK_FOR(name, st_read_shard(out, 0, size - NEAR, got, NEAR + 1, NULL) == ST_ERR_RANGE);
  CHECK_FOR(name, st_read_shard(out, 0, UINT64_MAX, got, NEAR, NULL) == ST_ERR_RANGE);
  CHECK_FOR(name, given.beyond == 0);
  st_free(out);
}

/* One byte beyond the end of the source. */
static void refused_beyond(uint64_t size, const char *name) {
  huge given;
  st_source source = ST_INIT(st_source);
  st_file *out = NULL;
  make(&given, 10000, size);
  given.size = size - 1;
  source.ctx = &given;
  source.size = size - 1;
  source.read_at = read_at;
  CHECK_FOR(name, st_open_source(&source, NULL, &out, NULL) == ST_ERR_COVERAGE && out == NULL);
  CHECK_FOR(name, given.beyond == 0);
}

int main(void) {
  static const struct {
    uint64_t value;
    const char *name;
  } kBoundaries[] = {{(uint64_t)1 << 31, "2^31"}, {(uint64_t)1 << 32, "2^32"}, {(uint64_t)1 << 63, "2^63"}};
  static const uint64_t kBefore[] = {0, 1, 8, NEAR - 1, NEAR, NEAR + 1};
  size_t i, k;
  for (i = 0; i < sizeof kBoundaries / sizeof kBoundaries[0]; ++i) {
    const uint64_t at = kBoundaries[i].value;
    for (k = 0; k < sizeof kBefore / sizeof kBefore[0]; ++k) {
      read_near(at - kBefore[k], at + 10000, kBoundaries[i].name);
      read_near(at - kBefore[k], UINT64_MAX, kBoundaries[i].name);
      read_near(at - 10000, at - kBefore[k], kBoundaries[i].name);
    }
    refused_beyond(at, kBoundaries[i].name);
    refused_beyond(at + 1, kBoundaries[i].name);
  }
  read_near(UINT64_MAX - NEAR, UINT64_MAX, "2^64");
  read_near(UINT64_MAX - NEAR - 1, UINT64_MAX, "2^64");
  refused_beyond(UINT64_MAX, "2^64");
  return test_result();
}
