/* Eight threads save, edit, open, read and close files, and meet broken ones. After thousands of such cycles the process
 * has as many descriptors, mappings and bytes as after the first thousands: capi_cycles [CYCLES], 2000 by default.
 * SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE 1
#include <pthread.h>
#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include "folder.h"

enum { THREADS = 8, ELEMENTS = 1500 };

static const char *const kShared = "shared.safetensors";

/* Invalid files, and the status of opening them. */
static const struct {
  const char *path, *header;
  size_t data_size;
  st_status status;
} kBroken[] = {
    {"hole", "{\"w\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[4,8]}}", 8, ST_ERR_OFFSETS},
    {"short", "{\"w\":{\"dtype\":\"U8\",\"shape\":[64],\"data_offsets\":[0,64]}}", 9, ST_ERR_COVERAGE},
    {"size", "{\"w\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,8]}}", 8, ST_ERR_TENSOR_SIZE},
    {"text", "{\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}", 8, ST_ERR_JSON},
    {"twice",
     "{\"w\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]},\"w\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}",
     0, ST_ERR_DUPLICATE},
    {"none", NULL, 0, ST_ERR_OPEN},
};
enum { BROKEN = sizeof kBroken / sizeof kBroken[0] };

typedef struct worker {
  pthread_t thread;
  int number, cycles;
  uint32_t random;
  int faults, saves, edits, refused;
  char first_fault[300];
} worker;

static uint32_t below(worker *me, uint32_t bound) {
  me->random = me->random * 1664525u + 1013904223u;
  return (uint32_t)(((uint64_t)me->random * bound) >> 32);
}

/* As test_check(), which counts for one thread. */
static void expect(worker *me, int holds, const char *what, const char *why) {
  if (!holds && me->faults++ == 0) snprintf(me->first_fault, sizeof me->first_fault, "%s: %s", what, why);
}

/* A tensor whose elements all equal the value, which is in the metadata too. */
static st_status save(worker *me, const char *path, float value, uint32_t flags) {
  st_error err = ST_INIT(st_error);
  st_write_options options = ST_INIT(st_write_options);
  const uint64_t shape[2] = {3, ELEMENTS / 3};
  const uint64_t one = 1;
  float elements[ELEMENTS];
  char text[32];
  st_writer *writer = NULL;
  size_t index = 0, i;
  const int put = below(me, 2) != 0, abandoned = below(me, 8) == 0;
  st_status status;
  for (i = 0; i < ELEMENTS; ++i) elements[i] = value;
  snprintf(text, sizeof text, "%.0f", (double)value);
  options.flags = flags;
  options.header_reserve = below(me, 2) * 200;
  expect(me, st_writer_new(&writer, &err) == ST_OK, "new", err.message);
  expect(me, st_writer_set_metadata(writer, "value", text, &err) == ST_OK, "set", err.message);
  expect(me, st_writer_add(writer, "w", ST_F32, 2, shape, put ? NULL : elements, &index, &err) == ST_OK, "add",
         err.message);
  expect(me, st_writer_add(writer, "w", ST_F32, 1, &one, NULL, NULL, NULL) == ST_ERR_DUPLICATE, "add twice", "");
  status = st_writer_begin(writer, path, &options, &err);
  if (status == ST_OK && put) {
    const size_t half = sizeof elements / 2;
    expect(me, st_writer_put(writer, index, half, (const char *)elements + half, half, &err) == ST_OK, "put",
           err.message);
    if (!abandoned) expect(me, st_writer_put(writer, index, 0, elements, half, &err) == ST_OK, "put", err.message);
  }
  if (status == ST_OK && !abandoned) status = st_writer_finish(writer, &err);
  st_writer_free(writer);
  expect(me, status == ST_OK || (flags & ST_WRITE_NO_REPLACE) != 0, "save", err.message);
  me->saves += status == ST_OK && !abandoned;
  return status;
}

/* Small changes are made in place, and long ones in a new file. */
static void edit(worker *me, const char *path) {
  st_error err = ST_INIT(st_error);
  char note[900];
  const char *const keys[2] = {"note", "other"};
  const char *values[2] = {note, NULL};
  const size_t length = below(me, 4) == 0 ? sizeof note - 1 : below(me, 40);
  st_status status;
  memset(note, 'n', length);
  note[length] = '\0';
  status = st_edit_metadata(path, keys, values, 2, NULL, &err);
  /* Others save the shared file again and again. */
  expect(me, status == ST_OK || (path == kShared && status == ST_ERR_STATE), "edit", err.message);
  me->edits += status == ST_OK;
}

static int all_equal(const float *elements, size_t count, float value) {
  size_t i;
  for (i = 0; i < count; ++i) {
    if (elements[i] != value) return 0;
  }
  return 1;
}

static void read_back(worker *me, const char *path) {
  st_error err = ST_INIT(st_error);
  const st_io io = (st_io)below(me, 4);
  const st_open_options options = test_mode(io);
  const int64_t begin[2] = {1, 7}, end[2] = {3, 107};
  float elements[ELEMENTS], slice[200];
  const st_tensor *tensor;
  const char *text;
  st_tensor_list *list = NULL;
  st_plan *plan = NULL;
  st_file *file = NULL;
  float value;
  if (st_open(path, &options, &file, &err) != ST_OK) {
    expect(me, 0, "open", err.message);
    return;
  }
  text = st_get_metadata(file, "value", NULL);
  value = text != NULL ? (float)atof(text) : -1;
  tensor = st_get_tensor(file, "w");
  expect(me, tensor != NULL && st_tensor_bytes(tensor) == sizeof elements, "tensor", path);
  expect(me, st_get_tensor(file, "none") == NULL, "no tensor", path);
  expect(me, st_tensor_read(tensor, elements, sizeof elements, &err) == ST_OK && all_equal(elements, ELEMENTS, value),
         "read", path);
  expect(me, st_tensor_read(tensor, elements, 4, NULL) == ST_ERR_BUFFER_SIZE, "read less", path);
  expect(me,
         st_tensor_read_slice(tensor, begin, end, NULL, slice, sizeof slice, &err) == ST_OK &&
             all_equal(slice, 200, value),
         "slice", path);
  expect(me, st_list_tensors(file, 0, &list, &err) == ST_OK, "list", err.message);
  st_tensor_list_free(list);
  if (below(me, 4) == 0) {
    st_read_options reading = ST_INIT(st_read_options);
    reading.threads = 1 + below(me, 3);
    memset(elements, 0, sizeof elements);
    expect(me, st_plan_new(file, &plan, &err) == ST_OK, "plan", err.message);
    expect(me, st_plan_add(plan, tensor, NULL, NULL, NULL, elements, sizeof elements, &err) == ST_OK, "plan",
           err.message);
    st_free(st_retain(file));
    expect(me, st_plan_run(plan, &reading, &err) == ST_OK && all_equal(elements, ELEMENTS, value), "run", path);
    st_plan_free(plan);
  }
  st_free(file);
}

static void meet_a_broken_file(worker *me) {
  const uint32_t i = below(me, BROKEN);
  const st_open_options options = test_mode((st_io)below(me, 4));
  st_error err = ST_INIT(st_error);
  st_report *report = NULL;
  st_file *file = NULL;
  expect(me, st_open(kBroken[i].path, &options, &file, &err) == kBroken[i].status && file == NULL, kBroken[i].path,
         err.message);
  if (kBroken[i].header == NULL) return;
  expect(me, st_check(kBroken[i].path, &options, &report, &err) == ST_OK && st_count_findings(report) != 0, "check",
         err.message);
  st_report_free(report);
  expect(me, st_edit_metadata(kBroken[i].path, NULL, NULL, 0, NULL, NULL) == kBroken[i].status, "edit",
         kBroken[i].path);
  ++me->refused;
}

static void *work(void *argument) {
  worker *me = (worker *)argument;
  char own[32];
  int i;
  snprintf(own, sizeof own, "own%d.safetensors", me->number);
  for (i = 0; i < me->cycles; ++i) {
    save(me, own, (float)i, 0);
    if (i == 0) save(me, own, 0, 0); /* the first may have been abandoned */
    if (access(own, F_OK) != 0) continue;
    edit(me, own);
    read_back(me, own);
    if (below(me, 8) == 0) expect(me, save(me, own, 1, ST_WRITE_NO_REPLACE) == ST_ERR_OPEN, "replaced", own);
    meet_a_broken_file(me);
    if (below(me, 8) == 0) save(me, kShared, (float)i, 0);
    if (below(me, 8) == 0) edit(me, kShared);
    read_back(me, kShared);
  }
  return NULL;
}

typedef struct usage {
  size_t descriptors, mappings, of_files, bytes;
} usage;

/* Expects that no other thread runs. */
static usage used_now(void) {
  usage now = {0, 0, 0, 0};
  char line[5000];
  DIR *folder = opendir("/proc/self/fd");
  FILE *maps = fopen("/proc/self/maps", "r");
  if (folder == NULL || maps == NULL) exit(TEST_SKIPPED);
  while (readdir(folder) != NULL) ++now.descriptors;
  closedir(folder);
  while (fgets(line, sizeof line, maps) != NULL) {
    ++now.mappings;
    now.of_files += strstr(line, test_folder) != NULL;
  }
  fclose(maps);
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 33)
  now.bytes = mallinfo2().uordblks;
#endif
  return now;
}

static usage run_for(int cycles, uint32_t seed) {
  static worker workers[THREADS];
  int i, saves = 0, edits = 0, refused = 0;
  memset(workers, 0, sizeof workers);
  for (i = 0; i < THREADS; ++i) {
    workers[i].number = i;
    workers[i].cycles = cycles / THREADS;
    workers[i].random = seed + (uint32_t)i * 7919u;
    if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0) abort();
  }
  for (i = 0; i < THREADS; ++i) {
    pthread_join(workers[i].thread, NULL);
    CHECK_FOR(workers[i].first_fault, workers[i].faults == 0);
    saves += workers[i].saves;
    edits += workers[i].edits;
    refused += workers[i].refused;
  }
  printf("%d cycles: %d saves, %d edits, %d broken files\n", cycles, saves, edits, refused);
  CHECK(saves > cycles / 2 && edits > cycles / 2 && refused > cycles / 2);
  return used_now();
}

int main(int argc, char **argv) {
  const int cycles = argc > 1 ? atoi(argv[1]) : 2000;
  worker first = {0};
  usage before, after;
  size_t i;
  test_enter_folder();
  for (i = 0; i < BROKEN; ++i) {
    if (kBroken[i].header == NULL) continue;
    test_bytes file = test_file(kBroken[i].header, kBroken[i].data_size);
    test_save(kBroken[i].path, file.data, file.size);
    test_release(&file);
  }
  while (access(kShared, F_OK) != 0) save(&first, kShared, 1, 0);
  before = run_for(cycles / 4, 1);
  after = run_for(cycles - cycles / 4, 2);
  printf("descriptors %zu, then %zu; mappings %zu, then %zu, of files %zu; bytes %zu, then %zu\n", before.descriptors,
         after.descriptors, before.mappings, after.mappings, after.of_files, before.bytes, after.bytes);
  CHECK(after.descriptors == before.descriptors);
  CHECK(after.of_files == 0);
  CHECK(after.mappings <= before.mappings + 8 * THREADS); /* the C library's arenas grow */
  CHECK(after.bytes <= before.bytes + 32768);
  test_leave_folder();
  return test_result();
}
