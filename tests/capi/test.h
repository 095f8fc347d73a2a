/* Shared by the C tests: counts failures, and makes files from the text of a header.
 *
 * No framework, because these programs show that a C compiler and the public header are enough.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef ST_TEST_H
#define ST_TEST_H

#include <safetensors/safetensors.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEST_SKIPPED = 77 };

static int test_faults;

static inline void test_check(int holds, const char *what, const char *context, int line) {
  if (holds) return;
  fprintf(stderr, "line %d: %s%s%s\n", line, what, *context ? ", for: " : "", context);
  ++test_faults;
}

#define CHECK(holds) test_check((holds), #holds, "", __LINE__)
#define CHECK_FOR(context, holds) test_check((holds), #holds, (context), __LINE__)

static inline int test_result(void) {
  if (test_faults != 0) fprintf(stderr, "%d faults\n", test_faults);
  return test_faults == 0 ? 0 : 1;
}

typedef struct test_bytes {
  unsigned char *data;
  size_t size;
} test_bytes;

static inline void *test_alloc(size_t size) {
  void *memory = malloc(size ? size : 1);
  if (memory == NULL) abort();
  return memory;
}

/* The length, the text of the header, and this many bytes of data that count upwards. */
static inline test_bytes test_file_n(const char *header, size_t header_size, size_t data_size) {
  test_bytes file;
  size_t i;
  file.size = 8 + header_size + data_size;
  file.data = (unsigned char *)test_alloc(file.size);
  for (i = 0; i < 8; ++i) file.data[i] = (unsigned char)((uint64_t)header_size >> (8 * i));
  memcpy(file.data + 8, header, header_size);
  for (i = 0; i < data_size; ++i) file.data[8 + header_size + i] = (unsigned char)i;
  return file;
}

static inline test_bytes test_file(const char *header, size_t data_size) {
  return test_file_n(header, strlen(header), data_size);
}

static inline void test_release(test_bytes *file) {
  free(file->data);
  file->data = NULL;
}

static inline st_status test_open(const test_bytes *file, const st_open_options *options, st_file **out,
                                  st_error *err) {
  return st_open_memory(file->data, file->size, NULL, NULL, options, out, err);
}

static inline void test_save(const char *path, const void *data, size_t size) {
  FILE *file = fopen(path, "wb");
  if (file == NULL || fwrite(data, 1, size, file) != size || fclose(file) != 0) {
    perror(path);
    abort();
  }
}

/* Two tensors, 'w' F32 [2,2] at 0..16 and 'b' BF16 [2] at 16..20; the header lists 'b' first. */
#define TEST_TWO                                                       \
  "{\"__metadata__\":{\"format\":\"pt\"},"                             \
  "\"b\":{\"dtype\":\"BF16\",\"shape\":[2],\"data_offsets\":[16,20]}," \
  "\"w\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[0,16]}}"

#endif
