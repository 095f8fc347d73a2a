/* Callbacks that may run on one thread at a time (ST_SOURCE_SERIAL), or on one thread only (threads = 1).
 * SPDX-License-Identifier: Apache-2.0 */
#define _XOPEN_SOURCE 700
#include "test.h"

#include <pthread.h>
#include <sched.h>

#include "folder.h"

enum { ROWS = 300, COLUMNS = 4096, SIZE = ROWS * COLUMNS, THREADS = 6, SHARDS = 12, HEADER = 1 << 20, TRIES = 1000 };

static test_bytes kFile;

typedef struct watched {
  pthread_t creator;
  int calls, now, together, on_other_threads;
} watched;

static watched kWatched;

static void called(void) {
  __atomic_add_fetch(&kWatched.calls, 1, __ATOMIC_SEQ_CST);
  if (!pthread_equal(pthread_self(), kWatched.creator))
    __atomic_add_fetch(&kWatched.on_other_threads, 1, __ATOMIC_SEQ_CST);
}

static void watch(void) {
  memset(&kWatched, 0, sizeof kWatched);
  kWatched.creator = pthread_self();
}

/* Gives other threads every chance to interfere. */
static void let_others_come_in(void) {
  int i;
  for (i = 0; i < 20; ++i) sched_yield();
}

static int32_t read_at(void *ctx, uint64_t offset, void *dst, size_t n) {
  (void)ctx;
  called();
  if (__atomic_add_fetch(&kWatched.now, 1, __ATOMIC_SEQ_CST) != 1) {
    __atomic_add_fetch(&kWatched.together, 1, __ATOMIC_SEQ_CST);
  }
  let_others_come_in();
  memcpy(dst, kFile.data + offset, n);
  __atomic_sub_fetch(&kWatched.now, 1, __ATOMIC_SEQ_CST);
  return 0;
}

static int32_t progress(void *ctx, uint64_t done, uint64_t total) {
  (void)ctx;
  (void)done;
  (void)total;
  called();
  return 0;
}

static void *allocate(void *ctx, size_t size, size_t align) {
  void *memory = NULL;
  (void)ctx;
  called();
  let_others_come_in();
  return posix_memalign(&memory, align < sizeof memory ? sizeof memory : align, size ? size : 1) == 0 ? memory : NULL;
}

static void release(void *ctx, void *memory, size_t size, size_t align) {
  (void)ctx;
  (void)size;
  (void)align;
  called();
  free(memory);
}

static void on_a_pool(void *ctx, size_t n, void (*fn)(void *arg, size_t i), void *arg) {
  size_t i;
  (void)ctx;
  kWatched.on_other_threads += 1000; /* it may use any threads, so the library must not call it */
  for (i = 0; i < n; ++i) fn(arg, i);
}

static st_file *open_source(uint32_t flags) {
  st_source source = ST_INIT(st_source);
  st_file *file = NULL;
  source.flags = flags;
  source.size = kFile.size;
  source.read_at = read_at;
  CHECK(st_open_source(&source, NULL, &file, NULL) == ST_OK);
  return file;
}

/* ---- sources ----------------------------------------------------------------------------------------------------------- */

static void *read_many_times(void *file) {
  static const int64_t step[] = {1, 2};
  unsigned char *const bytes = test_alloc(SIZE);
  const st_tensor *const tensor = st_get_tensor(file, "m");
  int i;
  for (i = 0; i < 10; ++i) {
    CHECK(st_tensor_read(tensor, bytes, SIZE, NULL) == ST_OK);
    CHECK(st_tensor_read_slice(tensor, NULL, NULL, step, bytes, SIZE / 2, NULL) == ST_OK && bytes[1] == 2);
    CHECK(st_read_shard(file, 0, 0, bytes, 100, NULL) == ST_OK);
  }
  free(bytes);
  return NULL;
}

static void read_from_many_threads(st_file *file) {
  pthread_t threads[THREADS];
  size_t i;
  for (i = 0; i < THREADS; ++i) CHECK(pthread_create(&threads[i], NULL, read_many_times, file) == 0);
  for (i = 0; i < THREADS; ++i) pthread_join(threads[i], NULL);
}

static void run_plan(st_file *file, uint32_t threads, int with_pool) {
  st_read_options options = ST_INIT(st_read_options);
  unsigned char *const bytes = test_alloc(SIZE);
  st_plan *plan = NULL;
  options.threads = threads;
  options.chunk_bytes = 65536;
  options.progress = progress;
  if (with_pool) options.parallel_for = on_a_pool;
  CHECK(st_plan_new(file, &plan, NULL) == ST_OK);
  CHECK(st_plan_add(plan, st_get_tensor(file, "m"), NULL, NULL, NULL, bytes, SIZE, NULL) == ST_OK);
  CHECK(st_plan_run(plan, &options, NULL) == ST_OK);
  CHECK(memcmp(bytes, kFile.data + kFile.size - SIZE, SIZE) == 0);
  st_plan_free(plan);
  free(bytes);
}

static void a_serial_source_is_read_by_one_thread_at_a_time(void) {
  st_file *file;
  watch();
  file = open_source(ST_SOURCE_SERIAL);
  read_from_many_threads(file);
  run_plan(file, THREADS, 0);
  CHECK(kWatched.calls > 3 * THREADS && kWatched.together == 0);
  CHECK(kWatched.on_other_threads > 0); /* one at a time, but any */
  st_free(file);
}

/* Proves that the test would fail. */
static void another_source_is_read_by_several(void) {
  st_file *file;
  int tries = 0;
  watch();
  file = open_source(0);
  do read_from_many_threads(file);
  while (kWatched.together == 0 && ++tries < TRIES);
  CHECK(kWatched.together > 0);
  st_free(file);
}

static void a_plan_reads_a_serial_source_on_the_calling_thread(void) {
  st_file *file;
  watch();
  file = open_source(ST_SOURCE_SERIAL);
  run_plan(file, 0, 0);
  CHECK(kWatched.calls > SIZE / 65536 && kWatched.on_other_threads == 0);
  st_free(file);
}

/* ---- threads = 1 --------------------------------------------------------------------------------------------------------- */

static void a_plan_of_one_thread_calls_nothing_on_another(void) {
  st_file *file;
  watch();
  file = open_source(0);
  run_plan(file, 1, 0);
  run_plan(file, 1, 1);
  CHECK(kWatched.calls > 2 * SIZE / 65536 && kWatched.on_other_threads == 0);
  st_free(file);
}

/* With long headers, whose memory is allocated on the thread that reads them. */
static void make_shards(void) {
  char *const header = test_alloc(HEADER + 1);
  char path[60];
  unsigned i;
  for (i = 1; i <= SHARDS; ++i) {
    snprintf(header, HEADER, "{\"t%u\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", i);
    memset(header + strlen(header), ' ', HEADER - strlen(header));
    header[HEADER] = '\0';
    test_bytes shard = test_file(header, 1);
    snprintf(path, sizeof path, "m-%05u-of-%05u.safetensors", i, (unsigned)SHARDS);
    test_save(path, shard.data, shard.size);
    test_release(&shard);
  }
  free(header);
}

static void open_shards(uint32_t threads) {
  st_open_options options = ST_INIT(st_open_options);
  st_allocator allocator = ST_INIT(st_allocator);
  st_file *file = NULL;
  watch();
  allocator.alloc = allocate;
  allocator.free = release;
  options.allocator = &allocator;
  options.threads = threads;
  CHECK(st_open(".", &options, &file, NULL) == ST_OK && st_count_shards(file) == SHARDS);
  st_free(file);
}

static void opening_with_one_thread_calls_nothing_on_another(void) {
  int tries = 0;
  make_shards();
  open_shards(1);
  CHECK(kWatched.calls > 4 && kWatched.on_other_threads == 0);
  do open_shards(THREADS);
  while (kWatched.on_other_threads == 0 && ++tries < TRIES);
  CHECK(kWatched.on_other_threads > 0);
}

int main(void) {
  char header[100];
  snprintf(header, sizeof header, "{\"m\":{\"dtype\":\"U8\",\"shape\":[%d,%d],\"data_offsets\":[0,%d]}}", ROWS, COLUMNS,
           SIZE);
  kFile = test_file(header, SIZE);
  test_enter_folder();
  a_serial_source_is_read_by_one_thread_at_a_time();
  another_source_is_read_by_several();
  a_plan_reads_a_serial_source_on_the_calling_thread();
  a_plan_of_one_thread_calls_nothing_on_another();
  opening_with_one_thread_calls_nothing_on_another();
  test_leave_folder();
  test_release(&kFile);
  return test_result();
}
