/* Plans, slices and buffers as a C program uses them.
 * SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE 1
#if ST_LINUX_IO
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>
#endif

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "safetensors/safetensors.h"

static int faults = 0;

static void check(int holds, const char *what, int line) {
  if (holds) return;
  fprintf(stderr, "plan.c:%d: %s\n", line, what);
  ++faults;
}
#define CHECK(condition) check((condition), #condition, __LINE__)

enum { kRows = 1000, kColumns = 6, kBytes = kRows * kColumns };

static st_file *open_sample(unsigned char **bytes, st_error *err) {
  const char header[] =
      "{\"m\":{\"dtype\":\"U8\",\"shape\":[1000,6],\"data_offsets\":[0,6000]},"
      "\"f4\":{\"dtype\":\"F4\",\"shape\":[2,2],\"data_offsets\":[6000,6002]}}";
  const size_t header_size = sizeof header - 1, size = 8 + header_size + kBytes + 2;
  st_file *file = NULL;
  size_t i;
  *bytes = calloc(size, 1);
  if (*bytes == NULL) return NULL;
  (*bytes)[0] = (unsigned char)header_size;
  memcpy(*bytes + 8, header, header_size);
  for (i = 0; i < kBytes; ++i) (*bytes)[8 + header_size + i] = (unsigned char)(i * 7 + i / 256);
  CHECK(st_open_memory(*bytes, size, NULL, NULL, NULL, &file, err) == ST_OK);
  return file;
}

static void test_slices(const st_file *file) {
  const st_tensor *m = st_get_tensor(file, "m"), *f4 = st_get_tensor(file, "f4");
  const unsigned char *data = st_tensor_data(m);
  const int64_t column_begin[] = {0, 2}, column_end[] = {INT64_MAX, 3}, back[] = {-1, 1}, zero[] = {1, 0};
  const int64_t rows_begin[] = {-2, 0}, rows_end[] = {1000, 6};
  unsigned char got[kRows];
  uint64_t shape[2] = {9, 9}, bytes = 9;
  const void *view = &bytes;
  st_error err = ST_INIT(st_error);
  size_t i;

  CHECK(st_tensor_slice(m, column_begin, column_end, NULL, shape, &bytes, &view, &err) == ST_OK);
  CHECK(shape[0] == kRows && shape[1] == 1 && bytes == kRows && view == NULL);
  CHECK(st_tensor_read_slice(m, column_begin, column_end, NULL, got, sizeof got, &err) == ST_OK);
  for (i = 0; i < kRows; ++i) CHECK(got[i] == data[i * kColumns + 2]);
  CHECK(st_tensor_read_slice(m, NULL, column_begin, back, got, 0, NULL) == ST_ERR_BUFFER_SIZE);
  CHECK(st_tensor_read_slice(m, column_begin, column_end, NULL, got, 5, &err) == ST_ERR_BUFFER_SIZE);
  CHECK(strstr(err.message, "'m'") != NULL && strstr(err.message, "1000") != NULL);

  CHECK(st_tensor_slice(m, rows_begin, rows_end, NULL, NULL, &bytes, &view, NULL) == ST_OK);
  CHECK(bytes == 12 && view == data + kBytes - 12);
  CHECK(st_tensor_slice(m, NULL, NULL, NULL, shape, NULL, NULL, NULL) == ST_OK && shape[0] == kRows &&
        shape[1] == kColumns);

  shape[0] = 77;
  CHECK(st_tensor_slice(m, NULL, NULL, zero, shape, NULL, NULL, &err) == ST_ERR_ARGUMENT && shape[0] == 77);
  CHECK(st_tensor_slice(f4, column_begin, rows_end, NULL, shape, NULL, NULL, NULL) == ST_OK && shape[1] == 0);
  CHECK(st_tensor_slice(f4, zero, rows_end, NULL, shape, NULL, NULL, NULL) == ST_OK && shape[0] == 1);
  CHECK(st_tensor_slice(f4, NULL, zero, NULL, shape, NULL, NULL, NULL) == ST_OK);
  {
    const int64_t half_begin[] = {0, 1}, half_end[] = {2, 2};
    CHECK(st_tensor_slice(f4, half_begin, half_end, NULL, shape, NULL, NULL, &err) == ST_ERR_MISALIGNED);
    CHECK(strstr(err.message, "'f4'") != NULL);
  }
  CHECK(st_tensor_slice(NULL, NULL, NULL, NULL, NULL, NULL, NULL, &err) == ST_ERR_ARGUMENT);
}

static int32_t cancel_at_once(void *ctx, uint64_t done, uint64_t total) {
  (void)done, (void)total;
  ++*(int *)ctx;
  return 1;
}

static int32_t count_calls(void *ctx, uint64_t done, uint64_t total) {
  ++*(int *)ctx;
  return done > total;
}

static void run_backwards(void *ctx, size_t n, void (*fn)(void *arg, size_t i), void *arg) {
  ++*(int *)ctx;
  while (n-- > 0) fn(arg, n);
}

static void test_plans(st_file *file) {
  const st_tensor *m = st_get_tensor(file, "m");
  const unsigned char *data = st_tensor_data(m);
  const int64_t begin[] = {10, -1}, end[] = {0, -3}, step[] = {-5, -1}; /* rows 10 and 5, columns 5 and 4 */
  unsigned char *whole = malloc(kBytes), corner[4] = {0};
  struct {
    st_read_options known;
    uint64_t later;
  } longer;
  st_read_options options = ST_INIT(st_read_options);
  st_error err = ST_INIT(st_error);
  st_plan *plan = NULL;
  uint64_t done = 9, total = 9;
  int calls = 0;

  CHECK(st_plan_new(file, &plan, &err) == ST_OK);
  CHECK(st_plan_run(plan, NULL, &err) == ST_OK);
  CHECK(st_plan_add(plan, m, NULL, NULL, NULL, whole, kBytes, &err) == ST_OK);
  CHECK(st_plan_add(plan, m, begin, end, step, corner, sizeof corner, &err) == ST_OK);
  CHECK(st_plan_add(plan, m, begin, end, step, corner, 5, &err) == ST_ERR_BUFFER_SIZE);
  CHECK(st_plan_add(plan, NULL, NULL, NULL, NULL, whole, kBytes, &err) == ST_ERR_ARGUMENT);
  st_free(file); /* the plan keeps it */
  st_plan_progress(plan, &done, &total);
  CHECK(done == 0 && total == kBytes + 4);
  CHECK(!st_plan_is_complete(plan, 0) && !st_plan_is_complete(plan, 1) && !st_plan_is_complete(plan, 2));

  options.ctx = &calls;
  options.progress = count_calls;
  CHECK(st_plan_run(plan, &options, &err) == ST_OK);
  CHECK(calls > 0 && memcmp(whole, data, kBytes) == 0);
  CHECK(corner[0] == data[65] && corner[1] == data[64] && corner[2] == data[35] && corner[3] == data[34]);
  CHECK(st_plan_is_complete(plan, 0) && st_plan_is_complete(plan, 1) && !st_plan_is_complete(plan, 2));
  st_plan_progress(plan, &done, NULL);
  CHECK(done == total);

  memset(whole, 0, kBytes);
  calls = 0;
  options.progress = NULL;
  options.parallel_for = run_backwards;
  options.threads = 3;
  CHECK(st_plan_run(plan, &options, &err) == ST_OK && calls == 1 && memcmp(whole, data, kBytes) == 0);

  st_plan_cancel(plan);
  CHECK(st_plan_run(plan, NULL, &err) == ST_ERR_CANCELLED && !st_plan_is_complete(plan, 0));
  CHECK(strstr(err.message, "0 of 6004") != NULL);
  CHECK(st_plan_run(plan, NULL, &err) == ST_OK && st_plan_is_complete(plan, 0));
  options.parallel_for = NULL;
  options.progress = cancel_at_once; /* everything is read before the first report */
  CHECK(st_plan_run(plan, &options, &err) == ST_OK || st_plan_is_complete(plan, 0) + st_plan_is_complete(plan, 1) < 2);

  options.progress = NULL;
  options.flags = 1;
  CHECK(st_plan_run(plan, &options, &err) == ST_ERR_UNSUPPORTED);
  options.flags = 0;
  options.cache = 4;
  CHECK(st_plan_run(plan, &options, &err) == ST_ERR_UNSUPPORTED);
  options.cache = ST_CACHE_AUTO;
  options.struct_size = (uint32_t)offsetof(st_read_options, ctx); /* shorter than in any version */
  options.parallel_for = run_backwards;
  calls = 0;
  CHECK(st_plan_run(plan, &options, &err) == ST_ERR_STRUCT_SIZE && calls == 0);
  memset(&longer, 0, sizeof longer);
  longer.known.struct_size = sizeof longer; /* a newer caller that sets no new member */
  CHECK(st_plan_run(plan, &longer.known, &err) == ST_OK);
  longer.later = 1;
  CHECK(st_plan_run(plan, &longer.known, &err) == ST_ERR_STRUCT_SIZE);
  st_plan_free(plan);
  st_plan_free(NULL);
  free(whole);
}

#if ST_LINUX_IO
/* Returns false under qemu-user, which ignores madvise() and reports success, and in sandboxes whose mincore() reports
 * every page as resident. */
static int mincore_tells(void) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  unsigned char before = 1, after = 0;
  void *const memory = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return 0;
  mincore(memory, page, &before);
#if defined(MADV_POPULATE_WRITE)
  if (madvise(memory, page, MADV_POPULATE_WRITE) != 0 && errno == EINVAL) after = 1; /* a kernel before 5.14 */
#else
  after = 1;
#endif
  if (after == 0) mincore(memory, page, &after);
  munmap(memory, page);
  return (before & 1) == 0 && (after & 1) != 0;
}

/* Returns how many bytes of a new buffer are in memory. */
static size_t bytes_there(size_t size, uint32_t flags) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  unsigned char *const there = calloc(size / page, 1);
  size_t i, count = 0;
  void *buffer = NULL;
  CHECK(st_buffer_new(size, flags, 2, &buffer, NULL) == ST_OK && mincore(buffer, size, there) == 0);
  for (i = 0; i < size / page; ++i) count += there[i] & 1;
  st_buffer_free(buffer);
  free(there);
  return count * page;
}
#endif

static void test_buffers(void) {
  const uint64_t sizes[] = {0, 1, 4096, 5000000};
  st_error err = ST_INIT(st_error);
  void *buffer = NULL;
  size_t i;
  for (i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
    CHECK(st_buffer_new(sizes[i], i / 2 % 2 == 0 ? 0 : ST_BUFFER_LAZY, i % 2 == 0 ? 0 : 2, &buffer, &err) == ST_OK);
    CHECK((uintptr_t)buffer % (2 << 20) == 0);
    if (sizes[i] > 0) {
      CHECK(((unsigned char *)buffer)[0] == 0 && ((unsigned char *)buffer)[sizes[i] - 1] == 0);
      memset(buffer, 1, (size_t)sizes[i]);
    }
    st_buffer_free(buffer);
  }
  st_buffer_free(NULL);
#if ST_LINUX_IO
  if (mincore_tells()) {
    CHECK(bytes_there(64 << 20, 0) == 64 << 20 && bytes_there(64 << 20, ST_BUFFER_LAZY) == 0);
  } else {
    printf("skipped: mincore() does not tell which pages are resident\n");
  }
#endif
  CHECK(st_buffer_new(UINT64_MAX, 0, 0, &buffer, &err) == ST_ERR_NO_MEMORY);
  CHECK(st_buffer_new((uint64_t)1 << 62, 0, 0, &buffer, &err) == ST_ERR_NO_MEMORY);
  CHECK(st_buffer_new(1, 2, 0, &buffer, &err) == ST_ERR_UNSUPPORTED);
  CHECK(st_buffer_new(1, 0, 0, NULL, &err) == ST_ERR_ARGUMENT);
}

/* The system would promise this memory, and kill the process when it is used. */
static void test_buffers_that_no_machine_holds(void) {
  static const uint64_t sizes[] = {(uint64_t)1 << 46, (uint64_t)1 << 62, UINT64_MAX};
  size_t i;
  for (i = 0; i < sizeof sizes / sizeof sizes[0]; ++i) {
    st_error err = ST_INIT(st_error);
    void *buffer = NULL;
    CHECK(st_buffer_new(sizes[i], ST_BUFFER_LAZY, 0, &buffer, &err) == ST_ERR_NO_MEMORY);
    CHECK(buffer == NULL && err.message[0] != '\0');
  }
}

int main(void) {
  st_error err = ST_INIT(st_error);
  unsigned char *bytes = NULL;
  st_file *file = open_sample(&bytes, &err);
  if (file == NULL) {
    fprintf(stderr, "plan.c: %s\n", err.message);
    return 1;
  }
  test_slices(file);
  test_plans(file);
  test_buffers();
  test_buffers_that_no_machine_holds();
  free(bytes);
  printf("%d faults\n", faults);
  return faults != 0;
}
