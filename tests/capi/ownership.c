/* Callers' objects are released exactly once: with the last reference, or as soon as opening fails.
 * SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

static const char kBad[] = "{\"a\":1}";

typedef struct owner {
  test_bytes file;
  int given_back;
  int fails_from; /* the call of read_at that fails, and all after it; 0: none */
  int reads;
} owner;

static void give_back(void *ctx) { ++((owner *)ctx)->given_back; }

static int32_t read_at(void *ctx, uint64_t offset, void *dst, size_t n) {
  owner *own = ctx;
  if (++own->reads >= own->fails_from && own->fails_from != 0) return -5;
  if (offset > own->file.size || n > own->file.size - offset) return -1;
  memcpy(dst, own->file.data + offset, n);
  return 0;
}

static owner make(const char *header, size_t data) {
  owner own;
  memset(&own, 0, sizeof own);
  own.file = test_file(header, data);
  return own;
}

static st_source source_of(owner *own) {
  st_source source = ST_INIT(st_source);
  source.ctx = own;
  source.size = own->file.size;
  source.read_at = read_at;
  source.close = give_back;
  return source;
}

static void memory_is_released_after_the_last_holder(void) {
  owner own = make(TEST_TWO, 20);
  st_file *out = NULL;
  CHECK(st_open_memory(own.file.data, own.file.size, give_back, &own, NULL, &out, NULL) == ST_OK);
  st_retain(out);
  st_free(out);
  CHECK(own.given_back == 0);
  st_free(out);
  CHECK(own.given_back == 1);
  test_release(&own.file);
}

static void a_source_is_closed_after_the_last_holder(void) {
  owner own = make(TEST_TWO, 20);
  const st_source source = source_of(&own);
  st_file *out = NULL;
  unsigned char read[16];
  CHECK(st_open_source(&source, NULL, &out, NULL) == ST_OK);
  const st_tensor *w = st_get_tensor(out, "w");
  CHECK(st_tensor_data(w) == NULL); /* there is nothing to point at */
  CHECK(st_tensor_read(w, read, sizeof read, NULL) == ST_OK && read[7] == 7);
  CHECK(own.given_back == 0);
  st_free(out);
  CHECK(own.given_back == 1);
  test_release(&own.file);
}

/* For every error of the call or the file. */
static void memory_is_released_when_opening_fails(void) {
  st_open_options wrong = ST_INIT(st_open_options);
  st_open_options cut = ST_INIT(st_open_options);
  st_open_options limited = ST_INIT(st_open_options);
  st_file *out = NULL;
  owner own = make(TEST_TWO, 20);
  wrong.flags = 1u << 31;
  cut.struct_size = 0;
  limited.max_header_bytes = 10;
  CHECK(st_open_memory(own.file.data, own.file.size, give_back, &own, &wrong, &out, NULL) == ST_ERR_UNSUPPORTED);
  CHECK(own.given_back == 1);
  CHECK(st_open_memory(own.file.data, own.file.size, give_back, &own, &cut, &out, NULL) == ST_ERR_STRUCT_SIZE);
  CHECK(own.given_back == 2);
  CHECK(st_open_memory(own.file.data, own.file.size, give_back, &own, &limited, &out, NULL) == ST_ERR_HEADER_SIZE);
  CHECK(own.given_back == 3);
  CHECK(st_open_memory(own.file.data, own.file.size, give_back, &own, NULL, NULL, NULL) == ST_ERR_ARGUMENT);
  CHECK(own.given_back == 4);
  CHECK(st_open_memory(NULL, own.file.size, give_back, &own, NULL, &out, NULL) == ST_ERR_ARGUMENT);
  CHECK(own.given_back == 5);
  CHECK(st_open_memory(own.file.data, 3, give_back, &own, NULL, &out, NULL) == ST_ERR_TRUNCATED);
  CHECK(own.given_back == 6);
  CHECK(st_open_memory(own.file.data, own.file.size - 1, give_back, &own, NULL, &out, NULL) == ST_ERR_COVERAGE);
  CHECK(own.given_back == 7 && out == NULL);
  test_release(&own.file);
}

static void a_source_is_closed_when_opening_fails(void) {
  owner own = make(kBad, 0);
  st_source source = source_of(&own);
  st_open_options wrong = ST_INIT(st_open_options);
  st_file *out = NULL;
  CHECK(st_open_source(&source, NULL, &out, NULL) == ST_ERR_SCHEMA);
  CHECK(own.given_back == 1);
  wrong.flags = 1u << 31;
  CHECK(st_open_source(&source, &wrong, &out, NULL) == ST_ERR_UNSUPPORTED);
  CHECK(own.given_back == 2);
  CHECK(st_open_source(&source, NULL, NULL, NULL) == ST_ERR_ARGUMENT);
  CHECK(own.given_back == 3);
  source.flags = 1u << 31;
  CHECK(st_open_source(&source, NULL, &out, NULL) == ST_ERR_UNSUPPORTED);
  CHECK(own.given_back == 4);
  source.flags = 0;
  source.read_at = NULL;
  CHECK(st_open_source(&source, NULL, &out, NULL) == ST_ERR_ARGUMENT);
  CHECK(own.given_back == 5 && out == NULL);
  test_release(&own.file);
}

/* A struct with unknown members is rejected and closed. One whose size no version has is not read. */
static void a_source_whose_struct_is_refused_is_closed(void) {
  static const uint32_t kImpossible[] = {0, 4, offsetof(st_source, close), sizeof(st_source) + 1, 0x10000, UINT32_MAX};
  struct {
    st_source known;
    uint64_t later;
  } longer;
  owner own = make(TEST_TWO, 20);
  st_source source = source_of(&own);
  st_file *out = NULL;
  size_t i;
  longer.known = source;
  longer.known.struct_size = sizeof longer;
  longer.later = 1;
  CHECK(st_open_source(&longer.known, NULL, &out, NULL) == ST_ERR_STRUCT_SIZE);
  CHECK(own.given_back == 1);
  for (i = 0; i < sizeof kImpossible / sizeof kImpossible[0]; ++i) {
    source.struct_size = kImpossible[i];
    CHECK(st_open_source(&source, NULL, &out, NULL) == ST_ERR_STRUCT_SIZE);
  }
  CHECK(own.given_back == 1 && out == NULL);
  test_release(&own.file);
}

static void a_source_that_fails_is_told_by_its_own_number(void) {
  owner own = make(TEST_TWO, 20);
  const st_source source = source_of(&own);
  st_error err = ST_INIT(st_error);
  st_file *out = NULL;
  unsigned char read[16];
  int needed, i;
  CHECK(st_open_source(&source, NULL, &out, NULL) == ST_OK);
  needed = own.reads;
  own.fails_from = needed + 1;
  CHECK(st_tensor_read(st_get_tensor(out, "w"), read, sizeof read, &err) == ST_ERR_CALLBACK);
  CHECK_FOR(err.message, strstr(err.message, "-5") != NULL);
  CHECK(err.offset == st_tensor_offset(st_get_tensor(out, "w")));
  st_free(out);
  CHECK(own.given_back == 1);
  out = NULL;
  for (i = 1; i <= needed; ++i) { /* each read of opening, in turn */
    own.reads = 0;
    own.fails_from = i;
    CHECK(st_open_source(&source, NULL, &out, &err) == ST_ERR_CALLBACK && out == NULL);
    CHECK(own.given_back == 1 + i && own.reads == i);
  }
  test_release(&own.file);
}

/* A small header in a source of 10 GB: one request of at most 16 KiB, before the length of the header is known. */
static uint64_t furthest;
static int requests;

static int32_t read_far(void *ctx, uint64_t offset, void *dst, size_t n) {
  const test_bytes *file = ctx;
  memset(dst, 0, n);
  if (offset + n > furthest) furthest = offset + n;
  ++requests;
  if (offset < file->size)
    memcpy(dst, file->data + offset, n < file->size - offset ? n : (size_t)(file->size - offset));
  return 0;
}

static void opening_reads_little_more_than_the_header(void) {
  test_bytes file = test_file("{\"w\":{\"dtype\":\"U8\",\"shape\":[10000000000],\"data_offsets\":[0,10000000000]}}", 0);
  st_source source = ST_INIT(st_source);
  st_file *out = NULL;
  source.ctx = &file;
  source.size = file.size + 10000000000u;
  source.read_at = read_far;
  CHECK(st_open_source(&source, NULL, &out, NULL) == ST_OK);
  CHECK(furthest <= 16384 && requests == 1);
  st_free(out);
  test_release(&file);
}

int main(void) {
  memory_is_released_after_the_last_holder();
  a_source_is_closed_after_the_last_holder();
  memory_is_released_when_opening_fails();
  a_source_is_closed_when_opening_fails();
  a_source_whose_struct_is_refused_is_closed();
  a_source_that_fails_is_told_by_its_own_number();
  opening_reads_little_more_than_the_header();
  return test_result();
}
