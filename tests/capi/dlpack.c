/* st_tensor_to_dlpack for every dtype and every kind of file: views and copies, marks, lifetimes, errors.
 *
 * tests/reference/dlpack.py hands them to real consumers.
 * SPDX-License-Identifier: Apache-2.0 */
#define _XOPEN_SOURCE 700
#include "test.h"

#include <pthread.h>

#include "dlpack.h"
#include "folder.h"

enum { READ_ONLY = 1, IS_COPIED = 2 };

static int is_packed(const seen_tensor *seen) {
  int64_t stride = 1;
  int32_t d;
  for (d = seen->ndim - 1; d >= 0; --d) {
    if (seen->strides[d] != stride) return 0;
    stride *= seen->shape[d];
  }
  return seen->device.type == 1 && seen->device.id == 0 && seen->byte_offset == 0 && seen->dtype.lanes == 1;
}

/* The data begins at a multiple of 8, as in most files. */
static test_bytes aligned_file(const char *header, size_t data_size) {
  char padded[400];
  snprintf(padded, sizeof padded, "%-*s", (int)((strlen(header) + 7) / 8 * 8), header);
  return test_file(padded, data_size);
}

/* ---- each dtype ------------------------------------------------------------------------------------------------------ */

static const struct {
  const char *dtype;
  uint8_t code, bits;
} kDtypes[] = {{"BOOL", 6, 8},     {"U8", 1, 8},           {"I8", 0, 8},           {"U16", 1, 16},
               {"I16", 0, 16},     {"U32", 1, 32},         {"I32", 0, 32},         {"U64", 1, 64},
               {"I64", 0, 64},     {"F16", 2, 16},         {"BF16", 4, 16},        {"F32", 2, 32},
               {"F64", 2, 64},     {"C64", 5, 64},         {"F8_E4M3", 10, 8},     {"F8_E5M2", 12, 8},
               {"F8_E8M0", 14, 8}, {"F8_E4M3FNUZ", 11, 8}, {"F8_E5M2FNUZ", 13, 8}, {"F6_E2M3", 15, 6},
               {"F6_E3M2", 16, 6}, {"F4", 17, 4}};

static void each_dtype_has_its_code(void) {
  size_t i;
  CHECK(sizeof kDtypes / sizeof kDtypes[0] == ST_F4); /* all of them */
  for (i = 0; i < sizeof kDtypes / sizeof kDtypes[0]; ++i) {
    char header[200];
    const unsigned bytes = 2U * 3 * 4 * kDtypes[i].bits / 8;
    st_file *file = NULL;
    versioned *made = NULL;
    legacy *old = NULL;
    snprintf(header, sizeof header, "{\"t\":{\"dtype\":\"%s\",\"shape\":[2,3,4],\"data_offsets\":[0,%u]}}",
             kDtypes[i].dtype, bytes);
    test_bytes whole = aligned_file(header, bytes);
    CHECK_FOR(header, test_open(&whole, NULL, &file, NULL) == ST_OK);
    CHECK_FOR(header, st_tensor_to_dlpack(st_get_tensor(file, "t"), 0, &made, NULL) == ST_OK);
    CHECK_FOR(header, st_tensor_to_dlpack_legacy(st_get_tensor(file, "t"), 0, &old, NULL) == ST_OK);
    st_free(file);
    CHECK_FOR(header, made->major == 1 && made->minor >= 1);
    CHECK_FOR(header, made->tensor.dtype.code == kDtypes[i].code && made->tensor.dtype.bits == kDtypes[i].bits);
    CHECK_FOR(header, old->tensor.dtype.code == kDtypes[i].code && old->tensor.dtype.bits == kDtypes[i].bits);
    CHECK_FOR(header, made->tensor.ndim == 3 && made->tensor.shape[0] == 2 && made->tensor.shape[2] == 4);
    CHECK_FOR(header, is_packed(&made->tensor) && is_packed(&old->tensor));
    CHECK_FOR(header, memcmp(made->tensor.data, whole.data + whole.size - bytes, bytes) == 0);
    CHECK_FOR(header, memcmp(old->tensor.data, whole.data + whole.size - bytes, bytes) == 0);
    made->deleter(made);
    old->deleter(old);
    test_release(&whole);
  }
}

/* ---- each kind of file ----------------------------------------------------------------------------------------------- */

typedef struct expected {
  const char *what;
  st_io io;
  const char *tensor;
  uint32_t flags;
  st_status status;
  uint64_t marks;
  int is_view;
} expected;

/* 'w' is aligned, 'c' is aligned for its two floats, and 'odd' is not aligned. */
#define PLACES                                                          \
  "{\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"    \
  "\"four\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[8,12]},"  \
  "\"c\":{\"dtype\":\"C64\",\"shape\":[1],\"data_offsets\":[12,20]},"   \
  "\"byte\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[20,21]}," \
  "\"odd\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[21,25]}}"

static const expected kVersioned[] = {
    {"a view that must not be written to", ST_IO_MAP, "w", 0, ST_OK, READ_ONLY, 1},
    {"a view that is made now", ST_IO_AUTO, "w", 0, ST_OK, READ_ONLY, 1},
    {"a view that may be written to", ST_IO_COPY, "w", 0, ST_OK, 0, 1},
    {"no view", ST_IO_READ, "w", 0, ST_OK, IS_COPIED, 0},
    {"no view and no copy", ST_IO_READ, "w", ST_DLPACK_NO_COPY, ST_ERR_STATE, 0, 0},
    {"a view, no copy", ST_IO_MAP, "w", ST_DLPACK_NO_COPY, ST_OK, READ_ONLY, 1},
    {"a copy", ST_IO_MAP, "w", ST_DLPACK_COPY, ST_OK, IS_COPIED, 0},
    {"a copy of what may be written to", ST_IO_COPY, "w", ST_DLPACK_COPY, ST_OK, IS_COPIED, 0},
    {"not aligned", ST_IO_MAP, "odd", 0, ST_OK, IS_COPIED, 0},
    {"not aligned and no copy", ST_IO_MAP, "odd", ST_DLPACK_NO_COPY, ST_ERR_STATE, 0, 0},
    {"complex numbers are aligned as floats", ST_IO_MAP, "c", ST_DLPACK_NO_COPY, ST_OK, READ_ONLY, 1},
    {"bytes need no alignment", ST_IO_MAP, "byte", ST_DLPACK_NO_COPY, ST_OK, READ_ONLY, 1},
    {"both flags", ST_IO_MAP, "w", ST_DLPACK_COPY | ST_DLPACK_NO_COPY, ST_ERR_ARGUMENT, 0, 0},
    {"an unknown flag", ST_IO_MAP, "w", 4, ST_ERR_UNSUPPORTED, 0, 0},
    {"another unknown flag", ST_IO_MAP, "w", 1U << 31, ST_ERR_UNSUPPORTED, 0, 0},
};

static const expected kLegacy[] = {
    {"cannot be marked", ST_IO_MAP, "w", 0, ST_OK, 0, 0},
    {"cannot be marked, no copy", ST_IO_MAP, "w", ST_DLPACK_NO_COPY, ST_ERR_STATE, 0, 0},
    {"may be written to", ST_IO_COPY, "w", 0, ST_OK, 0, 1},
    {"may be written to, no copy", ST_IO_COPY, "w", ST_DLPACK_NO_COPY, ST_OK, 0, 1},
    {"a copy", ST_IO_COPY, "w", ST_DLPACK_COPY, ST_OK, 0, 0},
    {"not aligned", ST_IO_COPY, "odd", 0, ST_OK, 0, 0},
    {"no view", ST_IO_READ, "w", 0, ST_OK, 0, 0},
    {"no view and no copy", ST_IO_READ, "w", ST_DLPACK_NO_COPY, ST_ERR_STATE, 0, 0},
    {"an unknown flag", ST_IO_COPY, "w", 8, ST_ERR_UNSUPPORTED, 0, 0},
};

static void check_data(const expected *row, const st_tensor *tensor, const seen_tensor *seen) {
  unsigned char bytes[16];
  const size_t n = (size_t)st_tensor_bytes(tensor);
  const int is_view = row->is_view && seen->data == st_tensor_data(tensor);
  const int is_copy = !row->is_view && seen->data != st_tensor_data(tensor) && (uintptr_t)seen->data % 64 == 0;
  CHECK_FOR(row->what, st_tensor_read(tensor, bytes, n, NULL) == ST_OK && memcmp(seen->data, bytes, n) == 0);
  CHECK_FOR(row->what, is_view || is_copy);
}

static void files_become_views_or_copies(void) {
  test_bytes bytes = aligned_file(PLACES, 25);
  size_t i;
  test_save("two.safetensors", bytes.data, bytes.size);
  for (i = 0; i < sizeof kVersioned / sizeof kVersioned[0]; ++i) {
    const expected *const row = &kVersioned[i];
    st_open_options options = test_mode(row->io);
    st_error err = ST_INIT(st_error);
    versioned *made = NULL;
    st_file *file = NULL;
    CHECK_FOR(row->what, st_open("two.safetensors", &options, &file, NULL) == ST_OK);
    const st_tensor *const tensor = st_get_tensor(file, row->tensor);
    CHECK_FOR(row->what, st_tensor_to_dlpack(tensor, row->flags, &made, &err) == row->status);
    CHECK_FOR(row->what, (made != NULL) == (row->status == ST_OK) && (made != NULL || err.message[0] != '\0'));
    if (made != NULL) {
      CHECK_FOR(row->what, made->flags == row->marks);
      check_data(row, tensor, &made->tensor);
      made->deleter(made);
    }
    st_free(file);
  }
  for (i = 0; i < sizeof kLegacy / sizeof kLegacy[0]; ++i) {
    const expected *const row = &kLegacy[i];
    st_open_options options = test_mode(row->io);
    legacy *made = NULL;
    st_file *file = NULL;
    CHECK_FOR(row->what, st_open("two.safetensors", &options, &file, NULL) == ST_OK);
    const st_tensor *const tensor = st_get_tensor(file, row->tensor);
    CHECK_FOR(row->what, st_tensor_to_dlpack_legacy(tensor, row->flags, &made, NULL) == row->status);
    CHECK_FOR(row->what, (made != NULL) == (row->status == ST_OK));
    if (made != NULL) {
      check_data(row, tensor, &made->tensor);
      made->deleter(made);
    }
    st_free(file);
  }
  test_release(&bytes);
}

static void what_is_written_to_a_copy_stays_there(void) {
  st_open_options options = test_mode(ST_IO_COPY);
  float values[2];
  versioned *made = NULL;
  st_file *file = NULL;
  CHECK(st_open("two.safetensors", &options, &file, NULL) == ST_OK);
  CHECK(st_tensor_to_dlpack(st_get_tensor(file, "w"), 0, &made, NULL) == ST_OK);
  memset(made->tensor.data, 0x7F, 8);
  CHECK(st_tensor_read(st_get_tensor(file, "w"), values, 8, NULL) == ST_OK &&
        memcmp(values, made->tensor.data, 8) != 0);
  made->deleter(made);
  st_free(file);
}

/* ---- lifetimes --------------------------------------------------------------------------------------------------------- */

static int released;
static void release(void *ctx) {
  (void)ctx;
  ++released;
}

static void a_view_holds_the_file_and_a_copy_does_not(void) {
  test_bytes bytes = aligned_file(TEST_TWO, 20);
  versioned *view = NULL, *copy = NULL, *unwanted = NULL;
  st_file *file = NULL;
  const unsigned char *w;
  CHECK(st_open_memory(bytes.data, bytes.size, release, NULL, NULL, &file, NULL) == ST_OK);
  CHECK(st_tensor_to_dlpack(st_get_tensor(file, "b"), ST_DLPACK_COPY, &copy, NULL) == ST_OK);
  CHECK(st_tensor_to_dlpack(st_get_tensor(file, "w"), 0, &view, NULL) == ST_OK);
  CHECK(st_tensor_to_dlpack(st_get_tensor(file, "w"), 0, &unwanted, NULL) == ST_OK);
  unwanted->deleter(unwanted); /* as of a consumer that refused it */
  st_free(file);
  CHECK(released == 0);
  w = view->tensor.data;
  CHECK(w[0] == 0 && w[15] == 15);
  view->deleter(view);
  CHECK(released == 1);
  memset(bytes.data, 0, bytes.size);
  CHECK(((const unsigned char *)copy->tensor.data)[3] == 19);
  copy->deleter(copy);
  CHECK(released == 1);
  test_release(&bytes);
}

static void *delete_it(void *made) {
  ((versioned *)made)->deleter(made);
  return NULL;
}

static void any_thread_may_delete(void) {
  test_bytes bytes = aligned_file(TEST_TWO, 20);
  st_file *file = NULL;
  versioned *made[8];
  pthread_t threads[8];
  size_t i;
  released = 0;
  CHECK(st_open_memory(bytes.data, bytes.size, release, NULL, NULL, &file, NULL) == ST_OK);
  for (i = 0; i < 8; ++i) CHECK(st_tensor_to_dlpack(st_get_tensor(file, "w"), 0, &made[i], NULL) == ST_OK);
  st_free(file);
  for (i = 0; i < 8; ++i) CHECK(pthread_create(&threads[i], NULL, delete_it, made[i]) == 0);
  for (i = 0; i < 8; ++i) pthread_join(threads[i], NULL);
  CHECK(released == 1);
  test_release(&bytes);
}

static void a_tensor_of_a_shard_holds_the_model(void) {
  test_bytes first = test_file("{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}", 2);
  test_bytes second = test_file("{\"b\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[0,3]}}", 3);
  versioned *made = NULL;
  st_file *file = NULL;
  CHECK(test_mkdir("model") == 0);
  test_save("model/m-00001-of-00002.safetensors", first.data, first.size);
  test_save("model/m-00002-of-00002.safetensors", second.data, second.size);
  CHECK(st_open("model", NULL, &file, NULL) == ST_OK && st_count_shards(file) == 2);
  CHECK(st_tensor_to_dlpack(st_get_tensor(file, "b"), ST_DLPACK_NO_COPY, &made, NULL) == ST_OK);
  st_free(file);
  CHECK(memcmp(made->tensor.data, "\0\1\2", 3) == 0);
  made->deleter(made);
  CHECK(unlink("model/m-00001-of-00002.safetensors") == 0 && unlink("model/m-00002-of-00002.safetensors") == 0);
  test_release(&first);
  test_release(&second);
}

/* ---- shapes ------------------------------------------------------------------------------------------------------------ */

typedef struct shape_row {
  const char *dtype, *shape;
  unsigned bytes;
  st_status status;
} shape_row;

static const shape_row kShapes[] = {
    {"F32", "[]", 4, ST_OK},
    {"F32", "[0]", 0, ST_OK},
    {"U8", "[0,9223372036854775807]", 0, ST_OK},
    {"U8", "[0,9223372036854775808]", 0, ST_ERR_UNSUPPORTED},     /* a dimension */
    {"U8", "[0,4294967296,2147483648]", 0, ST_ERR_UNSUPPORTED},   /* a stride of 2^63 */
    {"U8", "[0,1,4294967296,4294967296]", 0, ST_ERR_UNSUPPORTED}, /* a stride of 2^64 */
    {"U8", "[4294967296,0,4294967296]", 0, ST_OK},
    {"F128", "[1]", 16, ST_ERR_UNSUPPORTED},
};

static void shapes_that_are_odd(void) {
  size_t i;
  for (i = 0; i < sizeof kShapes / sizeof kShapes[0]; ++i) {
    const shape_row *const row = &kShapes[i];
    st_open_options options = ST_INIT(st_open_options);
    st_error err = ST_INIT(st_error);
    char header[200];
    st_file *file = NULL;
    versioned *made = NULL;
    options.flags = ST_OPEN_UNKNOWN_DTYPES;
    snprintf(header, sizeof header, "{\"t\":{\"dtype\":\"%s\",\"shape\":%s,\"data_offsets\":[0,%u]}}", row->dtype,
             row->shape, row->bytes);
    test_bytes bytes = test_file(header, row->bytes);
    CHECK_FOR(row->shape, test_open(&bytes, &options, &file, NULL) == ST_OK);
    CHECK_FOR(row->shape, st_tensor_to_dlpack(st_get_tensor(file, "t"), 0, &made, &err) == row->status);
    CHECK_FOR(row->shape, (made != NULL) == (row->status == ST_OK));
    if (made != NULL) {
      CHECK_FOR(row->shape, is_packed(&made->tensor) && (made->tensor.data == NULL) == (row->bytes == 0));
      CHECK_FOR(row->shape, (size_t)made->tensor.ndim == st_tensor_rank(st_get_tensor(file, "t")));
      made->deleter(made);
    }
    st_free(file);
    test_release(&bytes);
  }
}

/* ---- what fails -------------------------------------------------------------------------------------------------------- */

static int32_t only_headers(void *ctx, uint64_t offset, void *dst, size_t n) {
  const test_bytes *const bytes = ctx;
  if (offset != 0) return 7;
  memcpy(dst, bytes->data, n);
  return 0;
}

static void a_copy_that_cannot_be_read(void) {
  test_bytes bytes = aligned_file(TEST_TWO, 20);
  st_source source = ST_INIT(st_source);
  st_error err = ST_INIT(st_error);
  versioned *made = NULL;
  legacy *old = NULL;
  st_file *file = NULL;
  source.ctx = &bytes;
  source.size = bytes.size;
  source.read_at = only_headers;
  CHECK(st_open_source(&source, NULL, &file, NULL) == ST_OK);
  CHECK(st_tensor_to_dlpack(st_get_tensor(file, "w"), 0, &made, &err) == ST_ERR_CALLBACK);
  CHECK(strstr(err.message, "returned 7") != NULL);
  CHECK(st_tensor_to_dlpack_legacy(st_get_tensor(file, "w"), 0, &old, NULL) == ST_ERR_CALLBACK);
  CHECK(made == NULL && old == NULL);
  CHECK(st_tensor_to_dlpack(NULL, 0, &made, &err) == ST_ERR_ARGUMENT && strstr(err.message, "tensor") != NULL);
  CHECK(st_tensor_to_dlpack(st_get_tensor(file, "w"), 0, NULL, &err) == ST_ERR_ARGUMENT);
  CHECK(st_tensor_to_dlpack_legacy(NULL, 0, &old, NULL) == ST_ERR_ARGUMENT);
  CHECK(st_tensor_to_dlpack_legacy(st_get_tensor(file, "w"), 0, NULL, NULL) == ST_ERR_ARGUMENT);
  st_free(file);
  test_release(&bytes);
}

int main(void) {
  test_enter_folder();
  each_dtype_has_its_code();
  files_become_views_or_copies();
  what_is_written_to_a_copy_stays_there();
  a_view_holds_the_file_and_a_copy_does_not();
  any_thread_may_delete();
  a_tensor_of_a_shard_holds_the_model();
  shapes_that_are_odd();
  a_copy_that_cannot_be_read();
  test_leave_folder();
  return test_result();
}
