/* Costs of plans, counted and not timed: twice the destinations, or twice the runs of a slice, need at most twice the
 * allocations, the memory and the reads.
 * SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE 1
#include "failing_memory.h"
#include "test.h"

#if !TEST_FAILING_MEMORY

int main(void) {
  printf("skipped: malloc cannot be replaced under a sanitizer or another C library\n");
  return TEST_SKIPPED;
}

#else

typedef struct cost {
  long allocations, memory, reads, bytes;
} cost;

static test_bytes kFile;
static cost counted;

static int32_t read_at(void *ctx, uint64_t offset, void *dst, size_t n) {
  (void)ctx;
  memcpy(dst, kFile.data + offset, n);
  __atomic_add_fetch(&counted.reads, 1, __ATOMIC_SEQ_CST);
  __atomic_add_fetch(&counted.bytes, (long)n, __ATOMIC_SEQ_CST);
  return 0;
}

enum { MOST = 64000 };

/* `size` tensors of 16 bytes, with gaps of 16 bytes. */
static void make_many(size_t size) {
  char *const header = test_alloc(size * 150 + 100);
  size_t n = 0, i;
  for (i = 0; i < size; ++i) {
    n += (size_t)sprintf(header + n, "%c\"t%u\":{\"dtype\":\"U8\",\"shape\":[16],\"data_offsets\":[%u,%u]}",
                         i == 0 ? '{' : ',', (unsigned)i, (unsigned)i * 16, (unsigned)i * 16 + 16);
  }
  strcpy(header + n, "}");
  kFile = test_file(header, size * 16);
  free(header);
}

/* A matrix of `size` rows of 64 bytes. */
static void make_matrix(size_t size) {
  char header[200];
  sprintf(header, "{\"t0\":{\"dtype\":\"U8\",\"shape\":[%u,64],\"data_offsets\":[0,%u]}}", (unsigned)size,
          (unsigned)size * 64);
  kFile = test_file(header, size * 64);
}

static unsigned char received[(size_t)MOST * 64];

static void add_all(st_plan *plan, const st_file *file, size_t size) {
  size_t i;
  for (i = 0; i < size; ++i)
    CHECK(st_plan_add(plan, st_get_tensor_at(file, i), NULL, NULL, NULL, received + 16 * i, 16, NULL) == ST_OK);
}

/* Every other tensor, the last one first. */
static void add_some(st_plan *plan, const st_file *file, size_t size) {
  size_t i;
  for (i = size; i > 0; i -= 2)
    CHECK(st_plan_add(plan, st_get_tensor_at(file, i - 1), NULL, NULL, NULL, received + 16 * i, 16, NULL) == ST_OK);
}

/* The same tensor over and over: destinations that overlap in the file. */
static void add_again(st_plan *plan, const st_file *file, size_t size) {
  size_t i;
  for (i = 0; i < size; ++i)
    CHECK(st_plan_add(plan, st_get_tensor_at(file, 0), NULL, NULL, NULL, received + 16 * i, 16, NULL) == ST_OK);
}

static void add_column(st_plan *plan, const st_file *file, size_t size) {
  const int64_t begin[] = {0, 3}, end[] = {INT64_MAX, 7};
  CHECK(st_plan_add(plan, st_get_tensor(file, "t0"), begin, end, NULL, received, size * 4, NULL) == ST_OK);
}

static void add_backwards(st_plan *plan, const st_file *file, size_t size) {
  const int64_t step[] = {-1, -3};
  CHECK(st_plan_add(plan, st_get_tensor(file, "t0"), NULL, NULL, step, received, size * 22, NULL) == ST_OK);
}

static void add_rows(st_plan *plan, const st_file *file, size_t size) {
  size_t i;
  for (i = 0; i < size; ++i) {
    const int64_t begin[] = {(int64_t)i, 1}, end[] = {(int64_t)i + 1, 60}, step[] = {1, 2};
    CHECK(st_plan_add(plan, st_get_tensor(file, "t0"), begin, end, step, received + 30 * i, 30, NULL) == ST_OK);
  }
}

typedef struct test_case {
  const char *name;
  void (*make)(size_t size);
  void (*add)(st_plan *plan, const st_file *file, size_t size);
  size_t size;
  uint64_t gap_bytes;
  long bytes; /* expected bytes read for `size`; 0: unknown */
} test_case;

static const test_case kCases[] = {
    {"all tensors", make_many, add_all, 4000, 0, 0},
    {"every other tensor", make_many, add_some, 4000, 0, 0},
    {"every other tensor, no gap", make_many, add_some, 4000, 1, 4000 / 2 * 16},
    {"one tensor many times", make_many, add_again, 4000, 0, 16},
    {"a column", make_matrix, add_column, MOST / 2, 0, 0},
    {"a column, no gap", make_matrix, add_column, 4000, 1, 4000 * 4},
    {"backwards", make_matrix, add_backwards, 8000, 0, 0},
    {"a slice for each row", make_matrix, add_rows, 2000, 0, 0},
};

static cost cost_of(const test_case *which, size_t size) {
  st_source source = ST_INIT(st_source);
  st_read_options options = ST_INIT(st_read_options);
  st_file *file = NULL;
  st_plan *plan = NULL;
  which->make(size);
  source.size = kFile.size;
  source.read_at = read_at;
  options.threads = 1;
  options.gap_bytes = which->gap_bytes;
  CHECK_FOR(which->name, st_open_source(&source, NULL, &file, NULL) == ST_OK);
  memset(&counted, 0, sizeof counted);
  memory_arm(0, 0);
  CHECK_FOR(which->name, st_plan_new(file, &plan, NULL) == ST_OK);
  which->add(plan, file, size);
  CHECK_FOR(which->name, st_plan_run(plan, &options, NULL) == ST_OK);
  memory_disarm();
  counted.allocations = memory_calls;
  counted.memory = memory_requests;
  st_plan_free(plan);
  st_free(file);
  test_release(&kFile);
  return counted;
}

/* A few of each do not depend on the size; growing vectors allocate powers of two. */
static int at_most_twice(long twice, long once, long few) { return twice <= 2 * once + once / 20 + few; }

int main(void) {
  size_t i;
  for (i = 0; i < sizeof kCases / sizeof kCases[0]; ++i) {
    const cost once = cost_of(&kCases[i], kCases[i].size);
    const cost twice = cost_of(&kCases[i], 2 * kCases[i].size);
    printf("%-28s allocations %ld, %ld; memory %ld, %ld; reads %ld, %ld; bytes %ld, %ld\n", kCases[i].name,
           once.allocations, twice.allocations, once.memory, twice.memory, once.reads, twice.reads, once.bytes,
           twice.bytes);
    CHECK_FOR(kCases[i].name, kCases[i].bytes == 0 || once.bytes == kCases[i].bytes);
    CHECK_FOR(kCases[i].name, at_most_twice(twice.allocations, once.allocations, 30));
    CHECK_FOR(kCases[i].name, at_most_twice(twice.memory, once.memory, 1 << 20));
    CHECK_FOR(kCases[i].name, at_most_twice(twice.reads, once.reads, 3));
    CHECK_FOR(kCases[i].name, at_most_twice(twice.bytes, once.bytes, 0));
  }
  return test_result();
}

#endif
