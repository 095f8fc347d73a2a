/* Sources that end near 2^31, 2^32, 2^63 and 2^64: adding to or rounding offsets must not wrap. The source stores
 * nothing: it computes every byte from its offset.
 * SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "system.h"

enum { HEADER = 4000, TAIL = 5000, MOST = 8192 };

typedef struct huge {
  uint64_t size;
  unsigned char front[8 + HEADER];
  uint64_t body_at, body; /* where it begins in the source, and how long it is */
  int outside;            /* reads out of bounds */
} huge;

static const uint64_t kMostOfOne = UINT64_C(1) << 60; /* a tensor has less than 2^64 bits */

static unsigned char byte_at(uint64_t offset) {
  const uint64_t mixed = (offset + 1) * UINT64_C(0x9E3779B97F4A7C15);
  return (unsigned char)(mixed >> 56);
}

static int32_t read_at(void *ctx, uint64_t offset, void *dst, size_t n) {
  huge *const source = ctx;
  unsigned char *const to = dst;
  size_t i;
  if (offset > source->size || n > source->size - offset) {
    ++source->outside;
    return 1;
  }
  for (i = 0; i < n; ++i) to[i] = offset + i < sizeof source->front ? source->front[offset + i] : byte_at(offset + i);
  return 0;
}

/* As many tensors as needed, then 'body', then 'tail' at the end of the source. */
static void make(uint64_t size, huge *source) {
  const uint64_t data = size - sizeof source->front;
  char *const header = (char *)source->front + 8;
  uint64_t at = 0;
  size_t n = 0;
  int i;
  memset(source, 0, sizeof *source);
  memset(source->front + 8, ' ', HEADER);
  source->front[0] = HEADER & 0xFF;
  source->front[1] = HEADER >> 8;
  source->size = size;
  for (i = 0; at < data; ++i) {
    const uint64_t left = data - at;
    const uint64_t most = left > TAIL ? left - TAIL : TAIL;
    const uint64_t bytes = most < kMostOfOne ? most : most / 2 < kMostOfOne ? most / 2 : kMostOfOne;
    char name[20];
    snprintf(name, sizeof name, "%d", i);
    if (left == TAIL) snprintf(name, sizeof name, "tail");
    if (left == bytes + TAIL) snprintf(name, sizeof name, "body");
    if (left == bytes + TAIL) {
      source->body_at = sizeof source->front + at;
      source->body = bytes;
    }
    n += (size_t)snprintf(header + n, HEADER - n,
                          "%c\"%s\":{\"dtype\":\"U8\",\"shape\":[%" PRIu64 "],\"data_offsets\":[%" PRIu64 ",%" PRIu64
                          "]}",
                          i == 0 ? '{' : ',', name, bytes, at, at + bytes);
    at += bytes;
  }
  header[n] = '}';
}

static st_file *open_huge(huge *source, const char *where) {
  st_source given = ST_INIT(st_source);
  st_error err = ST_INIT(st_error);
  st_file *file = NULL;
  given.ctx = source;
  given.size = source->size;
  given.read_at = read_at;
  const st_status status = st_open_source(&given, NULL, &file, &err);
  CHECK_FOR(where, status == ST_OK);
  if (status != ST_OK) fprintf(stderr, "  %s\n", err.message);
  return file;
}

/* Positions in a tensor, as in Python's range(). */
typedef struct part {
  const char *tensor;
  int64_t begin, end, step;
  uint64_t first, count; /* position in the tensor, and how many */
  unsigned char got[MOST];
} part;

static part make_part(const char *tensor, uint64_t first, uint64_t count, int64_t step, uint64_t length) {
  part made;
  const uint64_t last = first + (uint64_t)step * (count - 1);
  memset(&made, 0, sizeof made);
  made.tensor = tensor;
  made.first = first;
  made.count = count;
  made.step = step;
  /* Counted from the nearer end: positions from 2^63 on have no positive number. */
  made.begin = first > length / 2 ? (int64_t)(first - length) : (int64_t)first;
  made.end = step > 0 ? (last + 1 == length  ? INT64_MAX
                         : last > length / 2 ? (int64_t)(last + 1 - length)
                                             : (int64_t)(last + 1))
                      : (last == 0           ? INT64_MIN
                         : last > length / 2 ? (int64_t)(last - 1 - length)
                                             : (int64_t)(last - 1));
  return made;
}

static int arrived(const huge *source, const part *wanted) {
  const uint64_t base = source->body_at + (strcmp(wanted->tensor, "tail") == 0 ? source->body : 0);
  uint64_t i;
  for (i = 0; i < wanted->count; ++i) {
    if (wanted->got[i] != byte_at(base + wanted->first + i * (uint64_t)wanted->step)) return 0;
  }
  return 1;
}

static size_t make_parts(const huge *source, part *parts) {
  const uint64_t body = source->body, half = body / 2;
  size_t n = 0;
  parts[n++] = make_part("tail", 0, TAIL, 1, TAIL);
  parts[n++] = make_part("tail", 3, 1000, 5, TAIL);
  parts[n++] = make_part("tail", TAIL - 1, TAIL, -1, TAIL);
  parts[n++] = make_part("body", 0, 10, 1, body);
  parts[n++] = make_part("body", body - 4097, 4097, 1, body);
  parts[n++] = make_part("body", body - 1, 600, -7, body);
  parts[n++] = make_part("body", half - 3000, 2000, 3, body);
  parts[n++] = make_part("body", half, 2, 70000, body);
  parts[n++] = make_part("body", 1, 3, (int64_t)(body / 4), body); /* from one end nearly to the other */
  parts[n++] = make_part("body", body - 2, 3, -(int64_t)(body / 4), body);
  return n;
}

typedef struct way {
  const char *name;
  uint32_t threads;
  uint64_t chunk_bytes, gap_bytes;
} way;

static const way kWays[] = {
    {"as it chooses", 0, 0, 0},
    {"one thread", 1, 0, 0},
    {"small chunks", 3, 65536, 1},
    {"chunks that divide nothing", 1, 3 * 65536 + 4096, 0},
    {"everything between", 2, 65536, UINT64_MAX},
};

static void by_plan(huge *source, const st_file *file, const way *how, part *parts, size_t count, const char *size) {
  st_read_options options = ST_INIT(st_read_options);
  st_error err = ST_INIT(st_error);
  st_plan *plan = NULL;
  char where[400];
  size_t i;
  options.threads = how->threads;
  options.chunk_bytes = how->chunk_bytes;
  options.gap_bytes = how->gap_bytes;
  CHECK_FOR(size, st_plan_new(file, &plan, NULL) == ST_OK);
  for (i = 0; i < count; ++i) {
    const st_tensor *const tensor = st_get_tensor(file, parts[i].tensor);
    memset(parts[i].got, 0, sizeof parts[i].got);
    const st_status status = st_plan_add(plan, tensor, &parts[i].begin, &parts[i].end, &parts[i].step, parts[i].got,
                                         (size_t)parts[i].count, &err);
    snprintf(where, sizeof where, "%s, part %u: %s", size, (unsigned)i, err.message);
    CHECK_FOR(where, status == ST_OK);
  }
  const st_status status = st_plan_run(plan, &options, &err);
  snprintf(where, sizeof where, "%s, %s: %s", size, how->name, err.message);
  CHECK_FOR(where, status == ST_OK);
  for (i = 0; i < count; ++i) {
    snprintf(where, sizeof where, "%s, %s, part %u", size, how->name, (unsigned)i);
    CHECK_FOR(where, arrived(source, &parts[i]));
  }
  st_plan_free(plan);
}

/* Without a plan, on the calling thread. */
static void by_slice(huge *source, const st_file *file, part *parts, size_t count, const char *size) {
  size_t i;
  for (i = 0; i < count; ++i) {
    const st_tensor *const tensor = st_get_tensor(file, parts[i].tensor);
    char where[200];
    snprintf(where, sizeof where, "%s, slice %u", size, (unsigned)i);
    memset(parts[i].got, 0, sizeof parts[i].got);
    CHECK_FOR(where, st_tensor_read_slice(tensor, &parts[i].begin, &parts[i].end, &parts[i].step, parts[i].got,
                                          (size_t)parts[i].count, NULL) == ST_OK);
    CHECK_FOR(where, arrived(source, &parts[i]));
  }
}

static void ends_at(uint64_t size) {
  static part parts[16];
  huge source;
  char where[60];
  unsigned char last = 0;
  size_t i;
  snprintf(where, sizeof where, "%" PRIu64 " bytes", size);
  make(size, &source);
  st_file *const file = open_huge(&source, where);
  if (file == NULL) return;
  const size_t count = make_parts(&source, parts);
  CHECK_FOR(where, st_get_shard_size(file, 0) == size);
  CHECK_FOR(where, st_read_shard(file, 0, size - 1, &last, 1, NULL) == ST_OK && last == byte_at(size - 1));
  CHECK_FOR(where, st_read_shard(file, 0, size, &last, 1, NULL) == ST_ERR_RANGE);
  CHECK_FOR(where, st_read_shard(file, 0, size - 1, &last, SIZE_MAX, NULL) == ST_ERR_RANGE);
  for (i = 0; i < sizeof kWays / sizeof kWays[0]; ++i) by_plan(&source, file, &kWays[i], parts, count, where);
  by_slice(&source, file, parts, count, where);
  CHECK_FOR(where, source.outside == 0);
  st_free(file);
}

int main(void) {
  static const uint64_t kEnds[] = {UINT64_C(1) << 31, UINT64_C(1) << 32, UINT64_C(1) << 63, 0}; /* 0: 2^64 */
  static const int64_t kBeyond[] = {-1048577, -65536, -4097, -4096, -1, 0, 1, 4096, 65537};
  size_t i, j;
  test_end_after(120);
  for (i = 0; i < sizeof kEnds / sizeof kEnds[0]; ++i) {
    for (j = 0; j < sizeof kBeyond / sizeof kBeyond[0]; ++j) {
      if (kEnds[i] != 0 || kBeyond[j] < 0) ends_at(kEnds[i] + (uint64_t)kBeyond[j]);
    }
  }
  return test_result();
}
