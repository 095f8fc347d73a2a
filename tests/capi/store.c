/* Checkpoints of files by name: which names a store is asked for, who closes what, how failures are reported, and how a
 * plan reads sources that state their parallelism.
 * SPDX-License-Identifier: Apache-2.0 */
#define _XOPEN_SOURCE 700
#include "test.h"

#if !defined(_WIN32)
#include <pthread.h>
#endif

enum { MOST_FILES = 8, MOST_LOG = 4096 };

typedef struct stored {
  const char *name;
  test_bytes bytes;
} stored;

typedef struct store {
  stored files[MOST_FILES];
  size_t count;
  st_source given; /* a pattern for all sources */
  const char *fails;
  st_status fails_with;
  st_status read_fails_with;
  int is_silent; /* its reads fail without a message */
  char log[MOST_LOG];
  int sources_open, sources_closed, closed, closed_too_early;
  uint64_t reads, longest, read_bytes;
} store;

typedef struct source {
  store *from;
  const stored *file;
  char name[64];
} source;

static st_status read_stored(void *ctx, uint64_t offset, void *dst, size_t n, st_error *err) {
  source *const self = ctx;
  if (self->from->read_fails_with != ST_OK) {
    if (!self->from->is_silent) snprintf(err->message, sizeof err->message, "the line\nis \xFF dead");
    err->os_error = 7;
    return self->from->read_fails_with;
  }
  if (offset > self->file->bytes.size || n > self->file->bytes.size - offset) return ST_ERR_INTERNAL;
  memcpy(dst, self->file->bytes.data + offset, n);
  ++self->from->reads;
  self->from->read_bytes += n;
  if (n > self->from->longest) self->from->longest = n;
  return ST_OK;
}

static void close_stored(void *ctx) {
  source *const self = ctx;
  ++self->from->sources_closed;
  if (self->from->closed) ++self->from->closed_too_early;
  free(self);
}

static st_status open_stored(void *ctx, const char *name, st_source *out, st_error *err) {
  store *const self = ctx;
  size_t i;
  strncat(self->log, name, MOST_LOG - strlen(self->log) - 2);
  strcat(self->log, ";");
  if (self->fails != NULL && strcmp(name, self->fails) == 0) {
    snprintf(err->message, sizeof err->message, "'%s' is locked away", name);
    err->os_error = 13;
    return self->fails_with;
  }
  for (i = 0; i < self->count; ++i) {
    if (strcmp(self->files[i].name, name) != 0) continue;
    source *const opened = test_alloc(sizeof *opened);
    opened->from = self;
    opened->file = &self->files[i];
    snprintf(opened->name, sizeof opened->name, "mem:%s", name);
    *out = self->given;
    out->ctx = opened;
    out->size = self->files[i].bytes.size;
    out->read = read_stored;
    out->close = close_stored;
    if (out->name != NULL) out->name = opened->name;
    ++self->sources_open;
    return ST_OK;
  }
  return ST_ERR_NOT_FOUND;
}

static void close_store(void *ctx) { ++((store *)ctx)->closed; }

static void put(store *in, const char *name, test_bytes bytes) {
  in->files[in->count].name = name;
  in->files[in->count++].bytes = bytes;
}

static test_bytes text_of(const char *text) {
  test_bytes bytes;
  bytes.size = strlen(text);
  bytes.data = test_alloc(bytes.size);
  memcpy(bytes.data, text, bytes.size);
  return bytes;
}

static const char kA[] = "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}";
static const char kB[] = "{\"b\":{\"dtype\":\"U8\",\"shape\":[6],\"data_offsets\":[0,6]}}";

static store *new_store(void) {
  store *const made = test_alloc(sizeof *made);
  memset(made, 0, sizeof *made);
  made->given = ST_INIT(st_source);
  put(made, "models/m.index.json",
      text_of("{\"metadata\":{\"k\":\"v\"},\"weight_map\":{\"a\":\"one.safetensors\",\"b\":\"sub/two.safetensors\"}}"));
  put(made, "models/one.safetensors", test_file(kA, 4));
  put(made, "models/sub/two.safetensors", test_file(kB, 6));
  put(made, "alone.safetensors", test_file(TEST_TWO, 20));
  return made;
}

static void free_store(store *old) {
  size_t i;
  for (i = 0; i < old->count; ++i) test_release(&old->files[i].bytes);
  free(old);
}

static st_status open_in(store *from, const char *name, uint32_t threads, st_file **out, st_error *err) {
  st_store given = ST_INIT(st_store);
  st_open_options options = ST_INIT(st_open_options);
  given.ctx = from;
  given.open = open_stored;
  given.close = close_store;
  options.threads = threads;
  return st_open_store(&given, name, &options, out, err);
}

/* Expects the status and a part of the message; the store and all its sources are closed once. */
static void expect_failure(store *from, const char *name, st_status status, const char *part) {
  st_file *out = NULL;
  st_error err = ST_INIT(st_error);
  from->closed = from->closed_too_early = from->sources_open = from->sources_closed = 0;
  CHECK_FOR(part, open_in(from, name, 1, &out, &err) == status && err.status == status && out == NULL);
  test_check(strstr(err.message, part) != NULL, part, err.message, __LINE__);
  CHECK_FOR(part, from->closed == 1 && from->sources_closed == from->sources_open && from->closed_too_early == 0);
}

static void an_index_opens_the_shards_next_to_it(void) {
  store *const from = new_store();
  st_file *out = NULL;
  unsigned char a[4], b[6];
  CHECK(open_in(from, "models/m.index.json", 1, &out, NULL) == ST_OK);
  CHECK(strcmp(from->log, "models/m.index.json;models/one.safetensors;models/sub/two.safetensors;") == 0);
  CHECK(st_count_shards(out) == 2 && st_count_tensors(out) == 2);
  CHECK(strcmp(st_get_shard_path(out, 1), "models/sub/two.safetensors") == 0);
  CHECK(st_tensor_read(st_get_tensor(out, "a"), a, 4, NULL) == ST_OK && a[3] == 3);
  CHECK(st_tensor_read(st_get_tensor(out, "b"), b, 6, NULL) == ST_OK && b[5] == 5);
  CHECK(st_tensor_data(st_get_tensor(out, "a")) == NULL);
  CHECK(from->sources_open == 3 && from->sources_closed == 1 && from->closed == 0); /* the index */
  st_free(out);
  CHECK(from->sources_closed == 3 && from->closed == 1 && from->closed_too_early == 0);
  free_store(from);
}

static void one_file_is_opened_by_its_name(void) {
  store *const from = new_store();
  st_file *out = NULL;
  from->given.name = ""; /* replaced by a name of each source */
  CHECK(open_in(from, "alone.safetensors", 0, &out, NULL) == ST_OK);
  CHECK(strcmp(from->log, "alone.safetensors;") == 0);
  CHECK(st_count_tensors(out) == 2 && strcmp(st_get_shard_path(out, 0), "mem:alone.safetensors") == 0);
  st_free(out);
  CHECK(from->closed == 1 && from->sources_closed == 1);
  free_store(from);
}

static void a_name_has_a_length(void) {
  store *const from = new_store();
  st_store given = ST_INIT(st_store);
  st_open_options options = ST_INIT(st_open_options);
  st_file *out = NULL;
  st_error err = ST_INIT(st_error);
  given.ctx = from;
  given.open = open_stored;
  given.close = close_store;
  options.threads = 1;
  CHECK(st_open_store_n(&given, "models/m.index.jsonl", 19, &options, &out, NULL) == ST_OK &&
        st_count_tensors(out) == 2);
  CHECK(strncmp(from->log, "models/m.index.json;", 20) == 0);
  st_free(out);
  CHECK(from->closed == 1);
  out = NULL;
  from->log[0] = '\0';
  CHECK(st_open_store_n(&given, "alone.safetensors\0", 18, NULL, &out, &err) == ST_ERR_ARGUMENT && from->closed == 2);
  CHECK_FOR(err.message, strcmp(err.message, "name 'alone.safetensors\\x00' contains a NUL") == 0);
  CHECK(st_open_store_n(&given, "alone.safetensors", SIZE_MAX, NULL, &out, &err) == ST_ERR_ARGUMENT &&
        from->closed == 3);
  CHECK(st_open_store_n(&given, "alone.safetensors", 0, NULL, &out, NULL) == ST_ERR_ARGUMENT && from->closed == 4);
  CHECK(st_open_store_n(&given, NULL, 0, NULL, &out, NULL) == ST_ERR_ARGUMENT && from->closed == 5);
  CHECK(st_open_store_n(NULL, "x", 1, NULL, &out, NULL) == ST_ERR_ARGUMENT);
  CHECK(out == NULL && from->log[0] == '\0');
  free_store(from);
}

static void failures_are_those_of_the_store(void) {
  store *const from = new_store();
  st_file *out = NULL;
  st_error err = ST_INIT(st_error);
  expect_failure(from, "models/absent.safetensors", ST_ERR_OPEN, "'models/absent.safetensors': the store has no such");
  expect_failure(from, "absent.index.json", ST_ERR_OPEN, "'absent.index.json': the store has no such file");
  expect_failure(from, "models/", ST_ERR_ARGUMENT, "is not the name of a file");
  expect_failure(from, "", ST_ERR_ARGUMENT, "is not the name of a file");
  from->fails_with = ST_ERR_NOT_FOUND;
  from->fails = "alone.safetensors";
  expect_failure(from, "alone.safetensors", ST_ERR_OPEN, "'alone.safetensors' is locked away");
  from->fails = "models/sub/two.safetensors";
  expect_failure(from, "models/m.index.json", ST_ERR_SHARD, "shard 'sub/two.safetensors' is missing");
  from->fails_with = ST_ERR_READ;
  expect_failure(from, "models/m.index.json", ST_ERR_READ, "is locked away");
  CHECK(open_in(from, "models/m.index.json", 1, &out, &err) == ST_ERR_READ && err.os_error == 13);
  from->fails_with = 12345;
  expect_failure(from, "models/m.index.json", ST_ERR_CALLBACK, "the store's open returned 12345");
  from->fails = NULL;
  from->read_fails_with = ST_ERR_READ;
  expect_failure(from, "alone.safetensors", ST_ERR_READ, "'alone.safetensors': the line\\x0ais \\xff dead");
  from->is_silent = 1;
  expect_failure(from, "alone.safetensors", ST_ERR_READ, "'alone.safetensors': the source's read returned ST_ERR_READ");
  from->read_fails_with = -1;
  expect_failure(from, "alone.safetensors", ST_ERR_CALLBACK, "the source's read returned -1");
  free_store(from);
}

static void a_failing_read_names_the_tensor(void) {
  store *const from = new_store();
  st_file *out = NULL;
  st_plan *plan = NULL;
  st_error err = ST_INIT(st_error);
  unsigned char w[16];
  CHECK(open_in(from, "alone.safetensors", 0, &out, NULL) == ST_OK);
  CHECK(st_plan_new(out, &plan, NULL) == ST_OK);
  CHECK(st_plan_add(plan, st_get_tensor(out, "w"), NULL, NULL, NULL, w, 16, NULL) == ST_OK);
  from->read_fails_with = ST_ERR_READ;
  CHECK(st_plan_run(plan, NULL, &err) == ST_ERR_READ && err.os_error == 7);
  CHECK(err.offset == st_tensor_offset(st_get_tensor(out, "w")));
  CHECK_FOR(err.message, strcmp(err.message, "tensor 'w': the line\\x0ais \\xff dead") == 0);
  st_plan_free(plan);
  st_free(out);
  free_store(from);
}

/* A server may not know that two spellings are one file. */
static void a_shard_has_one_spelling(void) {
  static const char *const kNames[] = {"./one.safetensors",  "sub//two.safetensors", "sub/./two.safetensors", "sub/",
                                       "../one.safetensors", "/one.safetensors"};
  size_t i;
  for (i = 0; i < sizeof kNames / sizeof *kNames; ++i) {
    store *const from = new_store();
    char index[128];
    snprintf(index, sizeof index, "{\"weight_map\":{\"a\":\"%s\"}}", kNames[i]);
    put(from, "models/odd.index.json", text_of(index));
    expect_failure(from, "models/odd.index.json", ST_ERR_SHARD, kNames[i]);
    CHECK_FOR(kNames[i], strcmp(from->log, "models/odd.index.json;") == 0);
    free_store(from);
  }
}

static void a_struct_that_is_refused_is_closed(void) {
  store *const from = new_store();
  st_store given = ST_INIT(st_store);
  st_file *out = NULL;
  given.ctx = from;
  given.close = close_store;
  CHECK(st_open_store(&given, "x", NULL, &out, NULL) == ST_ERR_ARGUMENT && from->closed == 1);
  given.open = open_stored;
  CHECK(st_open_store(&given, NULL, NULL, &out, NULL) == ST_ERR_ARGUMENT && from->closed == 2);
  CHECK(st_open_store(&given, "x", NULL, NULL, NULL) == ST_ERR_ARGUMENT && from->closed == 3);
  CHECK(st_open_store(&given, ".", NULL, &out, NULL) == ST_ERR_ARGUMENT && from->closed == 4);
  CHECK(st_open_store(&given, "a/..", NULL, &out, NULL) == ST_ERR_ARGUMENT && from->closed == 5);
  given.flags = 1;
  CHECK(st_open_store(&given, "x", NULL, &out, NULL) == ST_ERR_UNSUPPORTED && from->closed == 6);
  given.flags = 0;
  given.reserved = 1;
  CHECK(st_open_store(&given, "x", NULL, &out, NULL) == ST_ERR_ARGUMENT && from->closed == 7);
  given.struct_size = 3;
  CHECK(st_open_store(&given, "x", NULL, &out, NULL) == ST_ERR_STRUCT_SIZE && from->closed == 7);
  CHECK(st_open_store(NULL, "x", NULL, &out, NULL) == ST_ERR_ARGUMENT);
  from->given.flags = 1u << 31;
  expect_failure(from, "alone.safetensors", ST_ERR_UNSUPPORTED, "st_source.flags");
  from->given.flags = 0;
  from->given.reserved = 1;
  expect_failure(from, "alone.safetensors", ST_ERR_ARGUMENT, "source.reserved");
  free_store(from);
}

/* ---- plans ---- */

enum { BIG = 4 << 20, SMALL = 1000, SMALLS = 50 };

static st_file *open_big(store *from, char *header, size_t room) {
  st_file *out = NULL;
  size_t n =
      (size_t)snprintf(header, room, "{\"big\":{\"dtype\":\"U8\",\"shape\":[%d],\"data_offsets\":[0,%d]}", BIG, BIG);
  int i;
  for (i = 0; i < SMALLS; ++i) {
    n += (size_t)snprintf(header + n, room - n, ",\"s%d\":{\"dtype\":\"U8\",\"shape\":[%d],\"data_offsets\":[%d,%d]}",
                          i, SMALL, BIG + i * SMALL, BIG + (i + 1) * SMALL);
  }
  snprintf(header + n, room - n, "}");
  put(from, "big.safetensors", test_file(header, BIG + SMALLS * SMALL));
  CHECK(open_in(from, "big.safetensors", 0, &out, NULL) == ST_OK);
  return out;
}

/* Reads "big" or all small tensors, each to memory of its own, backwards so that no two can be merged. */
static void run_plan(store *from, st_file *file, int big, const st_read_options *options) {
  unsigned char *const memory = test_alloc(BIG + SMALLS * SMALL);
  unsigned char *to = memory + BIG + SMALLS * SMALL;
  st_plan *plan = NULL;
  size_t i, k;
  CHECK(st_plan_new(file, &plan, NULL) == ST_OK);
  for (i = 0; i < st_count_tensors(file); ++i) {
    const st_tensor *const tensor = st_get_tensor_at(file, i);
    const size_t bytes = (size_t)st_tensor_bytes(tensor);
    if ((bytes == BIG) != (big != 0)) continue;
    to -= bytes;
    memset(to, 0xEE, bytes);
    CHECK(st_plan_add(plan, tensor, NULL, NULL, NULL, to, bytes, NULL) == ST_OK);
  }
  from->reads = from->longest = from->read_bytes = 0;
  CHECK(st_plan_run(plan, options, NULL) == ST_OK);
  to = memory + BIG + SMALLS * SMALL;
  for (i = 0; i < st_count_tensors(file); ++i) {
    const st_tensor *const tensor = st_get_tensor_at(file, i);
    const size_t bytes = (size_t)st_tensor_bytes(tensor);
    if ((bytes == BIG) != (big != 0)) continue;
    to -= bytes;
    for (k = 0; k < bytes && to[k] == (unsigned char)((i == 0 ? 0 : BIG + (i - 1) * SMALL) + k); ++k) {}
    CHECK_FOR(st_tensor_name(tensor, NULL), k == bytes);
  }
  st_plan_free(plan);
  free(memory);
}

static void a_plan_uses_what_a_source_states(void) {
  char header[8192];
  store *const from = new_store();
  st_read_options options = ST_INIT(st_read_options);
  from->given.parallel = 1;
  from->given.chunk_bytes = 768 << 10;
  from->given.gap_bytes = 1;
  st_file *const file = open_big(from, header, sizeof header);
  run_plan(from, file, 1, NULL);
  CHECK(from->longest == 768 << 10 && from->reads <= 7 && from->read_bytes == BIG);
  run_plan(from, file, 0, NULL);
  CHECK(from->reads == 1 && from->read_bytes == SMALLS * SMALL); /* they are adjacent in the file */
  options.threads = 1;
  options.chunk_bytes = 2 << 20;
  run_plan(from, file, 1, &options);
  CHECK(from->longest == 2 << 20 && from->reads <= 3);
  st_free(file);
  free_store(from);
}

static void without_a_stated_gap_each_destination_is_read_by_itself(void) {
  char header[8192];
  store *const from = new_store();
  from->given.parallel = 1;
  st_file *const file = open_big(from, header, sizeof header);
  run_plan(from, file, 0, NULL);
  CHECK(from->reads == SMALLS);
  st_free(file);
  free_store(from);
}

/* ---- several at once ---- */

#if !defined(_WIN32)
enum { MEETING = 6, SECONDS = 20 };

static pthread_mutex_t meeting_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t meeting_changed = PTHREAD_COND_INITIALIZER;
static int present, met;

/* Returns once MEETING threads are here, or after SECONDS. */
static void meet(void) {
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += SECONDS;
  pthread_mutex_lock(&meeting_lock);
  if (++present >= MEETING) met = 1;
  pthread_cond_broadcast(&meeting_changed);
  while (!met && pthread_cond_timedwait(&meeting_changed, &meeting_lock, &until) == 0) {}
  pthread_mutex_unlock(&meeting_lock);
}

static test_bytes shards[MEETING];
static int meet_in_open, meet_in_read;

static st_status read_meeting(void *ctx, uint64_t offset, void *dst, size_t n, st_error *err) {
  const test_bytes *const file = ctx;
  (void)err;
  if (meet_in_read) meet();
  memcpy(dst, file->data + offset, n);
  return ST_OK;
}

static pthread_t opener;
static int opened_elsewhere;

static st_status open_meeting(void *ctx, const char *name, st_source *out, st_error *err) {
  const struct timespec a_moment = {0, 1000000};
  const test_bytes *file = ctx;
  (void)err;
  if (name[0] != 'm') {
    file = &shards[name[0] - '0'];
    if (meet_in_open) meet();
    if (!meet_in_open) nanosleep(&a_moment, NULL); /* in which another thread could begin */
    if (!meet_in_open && !pthread_equal(pthread_self(), opener)) opened_elsewhere = 1;
  }
  out->ctx = (void *)(uintptr_t)file;
  out->size = file->size;
  out->read = read_meeting;
  out->parallel = MEETING;
  out->gap_bytes = 1;
  return ST_OK;
}

static void reset_meeting(void) { meet_in_open = meet_in_read = met = present = 0; }

/* Each row is a request, because the gaps are longer than the source reads. */
static void the_rows_of_a_slice_are_read_at_once(void) {
  static const int64_t begin[] = {0, 0}, end[] = {MEETING, 1};
  char header[128];
  unsigned char memory[MEETING];
  st_store given = ST_INIT(st_store);
  st_file *file = NULL;
  st_plan *plan = NULL;
  test_bytes one;
  int i;
  snprintf(header, sizeof header, "{\"t\":{\"dtype\":\"U8\",\"shape\":[%d,4],\"data_offsets\":[0,%d]}}", MEETING,
           4 * MEETING);
  one = test_file(header, 4 * MEETING);
  given.ctx = &one;
  given.open = open_meeting;
  reset_meeting();
  CHECK(st_open_store(&given, "m.safetensors", NULL, &file, NULL) == ST_OK);
  CHECK(st_plan_new(file, &plan, NULL) == ST_OK);
  CHECK(st_plan_add(plan, st_get_tensor(file, "t"), begin, end, NULL, memory, MEETING, NULL) == ST_OK);
  meet_in_read = 1;
  CHECK(st_plan_run(plan, NULL, NULL) == ST_OK && met);
  for (i = 0; i < MEETING; ++i) CHECK(memory[i] == 4 * i);
  st_plan_free(plan);
  st_free(file);
  test_release(&one);
}

/* Even on a machine of one processor, and for requests of few bytes: each of them waits. */
static void as_many_are_opened_and_read_at_once_as_are_stated(void) {
  char header[128], index[1024];
  size_t n = (size_t)snprintf(index, sizeof index, "{\"weight_map\":{");
  unsigned char memory[MEETING][3];
  st_store given = ST_INIT(st_store);
  st_file *file = NULL;
  st_plan *plan = NULL;
  test_bytes text;
  int i;
  for (i = 0; i < MEETING; ++i) {
    snprintf(header, sizeof header, "{\"t%d\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]}}", i);
    shards[i] = test_file(header, 3);
    n += (size_t)snprintf(index + n, sizeof index - n, "%s\"t%d\":\"%d.safetensors\"", i == 0 ? "" : ",", i, i);
  }
  snprintf(index + n, sizeof index - n, "}}");
  text = text_of(index);
  given.ctx = &text;
  given.open = open_meeting;
  given.parallel = 1;
  opener = pthread_self();
  CHECK(st_open_store(&given, "m.index.json", NULL, &file, NULL) == ST_OK && !opened_elsewhere);
  st_free(file);
  given.parallel = MEETING;
  meet_in_open = 1;
  CHECK(st_open_store(&given, "m.index.json", NULL, &file, NULL) == ST_OK && met);
  reset_meeting();
  CHECK(st_plan_new(file, &plan, NULL) == ST_OK);
  for (i = 0; i < MEETING; ++i) {
    CHECK(st_plan_add(plan, st_get_tensor_at(file, (size_t)i), NULL, NULL, NULL, memory[i], 3, NULL) == ST_OK);
  }
  meet_in_read = 1;
  CHECK(st_plan_run(plan, NULL, NULL) == ST_OK && met);
  for (i = 0; i < MEETING; ++i) CHECK(memory[i][2] == 2);
  st_plan_free(plan);
  st_free(file);
  for (i = 0; i < MEETING; ++i) test_release(&shards[i]);
  test_release(&text);
}
#endif

int main(void) {
  an_index_opens_the_shards_next_to_it();
  one_file_is_opened_by_its_name();
  a_name_has_a_length();
  failures_are_those_of_the_store();
  a_failing_read_names_the_tensor();
  a_shard_has_one_spelling();
  a_struct_that_is_refused_is_closed();
  a_plan_uses_what_a_source_states();
  without_a_stated_gap_each_destination_is_read_by_itself();
#if !defined(_WIN32)
  as_many_are_opened_and_read_at_once_as_are_stated();
  the_rows_of_a_slice_are_read_at_once();
#endif
  return test_result();
}
