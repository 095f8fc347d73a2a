/* Opens a file, queries everything in it, and reads it.
 * SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

static void release(void *ctx) {
  test_release(ctx);
  free(ctx);
}

static st_file *open_text(const char *header, size_t data, uint32_t flags) {
  test_bytes *file = test_alloc(sizeof *file);
  st_open_options options = ST_INIT(st_open_options);
  st_error err = ST_INIT(st_error);
  st_file *out = NULL;
  *file = test_file(header, data);
  options.flags = flags;
  st_open_memory(file->data, file->size, release, file, &options, &out, &err);
  CHECK_FOR(err.message, out != NULL);
  return out;
}

static void one_tensor_in_all_its_parts(void) {
  st_file *file = open_text(TEST_TWO, 20, 0);
  const size_t data_begin = 8 + strlen(TEST_TWO);
  size_t len = 99;
  unsigned char read[16];
  int i;
  CHECK(st_count_tensors(file) == 2);
  const st_tensor *w = st_get_tensor(file, "w");
  CHECK(w != NULL && w == st_get_tensor_at(file, 0) && w == st_get_tensor_n(file, "wb", 1));
  CHECK(strcmp(st_tensor_name(w, &len), "w") == 0 && len == 1);
  CHECK(st_tensor_name(w, NULL) == st_tensor_name(w, &len));
  CHECK(st_tensor_dtype(w) == ST_F32 && strcmp(st_tensor_dtype_name(w), "F32") == 0);
  CHECK(st_tensor_rank(w) == 2 && st_tensor_shape(w)[0] == 2 && st_tensor_shape(w)[1] == 2);
  CHECK(st_tensor_elements(w) == 4 && st_tensor_bytes(w) == 16);
  CHECK(st_tensor_offset(w) == data_begin && st_tensor_shard(w) == 0);
  CHECK(st_tensor_read(w, read, sizeof read, NULL) == ST_OK);
  for (i = 0; i < 16; ++i) CHECK(read[i] == i);
  CHECK(memcmp(st_tensor_data(w), read, sizeof read) == 0);
  CHECK(st_tensor_offset(st_get_tensor(file, "b")) == data_begin + 16);
  CHECK(st_count_shards(file) == 1 && st_get_shard_path(file, 1) == NULL);
  CHECK(strcmp(st_get_header(file, 0, &len), TEST_TWO) == 0 && len == strlen(TEST_TWO));
  CHECK(st_get_header(file, 1, NULL) == NULL);
  st_free(file);
}

static void what_is_absent_is_null(void) {
  st_file *file = open_text(TEST_TWO, 20, 0);
  st_file *empty = NULL;
  CHECK(st_get_tensor(file, "") == NULL && st_get_tensor(file, "W") == NULL && st_get_tensor(file, "w ") == NULL);
  CHECK(st_get_tensor_n(file, "w\0", 2) == NULL && st_get_tensor_n(file, "w", 0) == NULL);
  CHECK(st_get_tensor_at(file, 2) == NULL && st_get_tensor_at(file, SIZE_MAX) == NULL);
  CHECK(st_get_tensor(file, "__metadata__") == NULL);
  CHECK(st_get_metadata(file, "w", NULL) == NULL && st_get_metadata_at(file, 1, NULL, NULL, NULL) == NULL);
  st_free(file);
  empty = open_text("{}", 0, 0);
  CHECK(st_count_tensors(empty) == 0 && st_get_tensor_at(empty, 0) == NULL && st_get_tensor(empty, "a") == NULL);
  CHECK(st_count_metadata(empty) == 0 && st_get_metadata(empty, "format", NULL) == NULL);
  st_free(empty);
}

static void data_order_is_by_place_and_then_by_name(void) {
  static const char *const kOrder[] = {"a0", "z0", "first", "empty.a", "empty.b", "second", "end"};
  st_file *file = open_text(
      "{\"end\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[6,6]},"
      "\"z0\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]},"
      "\"second\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[4,6]},"
      "\"empty.b\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[4,4]},"
      "\"first\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
      "\"empty.a\":{\"dtype\":\"F64\",\"shape\":[7,0],\"data_offsets\":[4,4]},"
      "\"a0\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}",
      6, 0);
  size_t i;
  CHECK(st_count_tensors(file) == 7);
  for (i = 0; i < 7; ++i) {
    const st_tensor *tensor = st_get_tensor_at(file, i);
    CHECK_FOR(kOrder[i], strcmp(st_tensor_name(tensor, NULL), kOrder[i]) == 0);
    CHECK_FOR(kOrder[i], st_get_tensor(file, kOrder[i]) == tensor);
  }
  CHECK(st_tensor_read(st_get_tensor(file, "empty.a"), NULL, 0, NULL) == ST_OK);
  st_free(file);
}

static void a_name_is_any_string(void) {
  static const struct {
    const char *spelled;
    const char *name;
    size_t len;
  } kNames[] = {
      {"", "", 0},
      {"a\\u0000b", "a\0b", 3},
      {"\\u0000", "\0", 1},
      {"\\u0061\\u00e9\\u20ac\\ud83d\\ude00", "a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80", 10},
      {"\\\"\\\\\\/\\b\\f\\n\\r\\t", "\"\\/\b\f\n\r\t", 8},
      {"\x7F", "\x7F", 1},
      {"dtype", "dtype", 5},
      {"_metadata__", "_metadata__", 11},
  };
  size_t i;
  for (i = 0; i < sizeof kNames / sizeof kNames[0]; ++i) {
    char header[200];
    size_t len = 99;
    snprintf(header, sizeof header, "{\"%s\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
             kNames[i].spelled);
    st_file *file = open_text(header, 1, 0);
    const st_tensor *tensor = st_get_tensor_n(file, kNames[i].name, kNames[i].len);
    CHECK_FOR(kNames[i].spelled, tensor != NULL && tensor == st_get_tensor_at(file, 0));
    const char *name = st_tensor_name(st_get_tensor_at(file, 0), &len);
    CHECK_FOR(kNames[i].spelled, len == kNames[i].len && memcmp(name, kNames[i].name, len) == 0 && name[len] == '\0');
    CHECK_FOR(kNames[i].spelled, strcmp(st_get_header(file, 0, &len), header) == 0 && len == strlen(header));
    st_free(file);
  }
}

static void names_that_differ_only_behind_a_nul(void) {
  st_file *file = open_text(
      "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
      "\"a\\u0000\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]},"
      "\"a\\u0000b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[2,3]}}",
      3, 0);
  CHECK(st_get_tensor(file, "a") == st_get_tensor_at(file, 0));
  CHECK(st_get_tensor_n(file, "a\0", 2) == st_get_tensor_at(file, 1));
  CHECK(st_get_tensor_n(file, "a\0b", 3) == st_get_tensor_at(file, 2));
  CHECK(st_get_tensor_n(file, "a\0c", 3) == NULL);
  st_free(file);
}

static void metadata_in_the_order_of_the_file(void) {
  st_file *file = open_text("{\"__metadata__\":{\"z\":\"1\",\"a\\n\":\"x\\u0000y\",\"\":\"\"}}", 0, 0);
  const char *value = NULL;
  size_t len = 99;
  CHECK(st_count_metadata(file) == 3);
  CHECK(strcmp(st_get_metadata_at(file, 0, NULL, &value, &len), "z") == 0 && strcmp(value, "1") == 0 && len == 1);
  CHECK(strcmp(st_get_metadata_at(file, 1, NULL, &value, &len), "a\n") == 0 && len == 3 &&
        memcmp(value, "x\0y", 4) == 0);
  CHECK(strcmp(st_get_metadata_at(file, 2, NULL, NULL, NULL), "") == 0);
  CHECK(strcmp(st_get_metadata(file, "", &len), "") == 0 && len == 0);
  CHECK(memcmp(st_get_metadata(file, "a\n", &len), "x\0y", 4) == 0 && len == 3);
  CHECK(strcmp(st_get_metadata(file, "z", NULL), "1") == 0);
  st_free(file);
  file = open_text("{\"__metadata__\":{\"a\\u0000b\":\"1\",\"a\":\"2\"}}", 0, 0);
  CHECK(memcmp(st_get_metadata_at(file, 0, &len, NULL, NULL), "a\0b", 4) == 0 && len == 3);
  CHECK(strcmp(st_get_metadata_n(file, "a\0b", 3, NULL), "1") == 0 &&
        strcmp(st_get_metadata(file, "a", NULL), "2") == 0);
  st_free(file);
}

static void by_the_reference_the_last_of_two_counts(void) {
  st_file *file = open_text(
      "{\"__metadata__\":{\"k\":\"1\",\"l\":\"2\",\"k\":\"3\"},"
      "\"a\":{\"dtype\":\"F32\",\"shape\":[9],\"data_offsets\":[50,80]},"
      "\"b\":[\"U8\",[1],[2,3]],"
      "\"\\u0061\":{\"dtype\":{\"U16\":null},\"shape\":[1],\"data_offsets\":[0,2]}}",
      3, ST_OPEN_REFERENCE);
  CHECK(st_count_tensors(file) == 2 && st_count_metadata(file) == 2);
  CHECK(st_tensor_dtype(st_get_tensor(file, "a")) == ST_U16 && st_tensor_bytes(st_get_tensor(file, "a")) == 2);
  CHECK(st_tensor_dtype(st_get_tensor(file, "b")) == ST_U8);
  CHECK(strcmp(st_get_metadata(file, "k", NULL), "3") == 0 && strcmp(st_get_metadata(file, "l", NULL), "2") == 0);
  st_free(file);
}

static void every_dtype(void) {
  static const struct {
    const char *name;
    st_dtype dtype;
    uint32_t bits;
  } kDtypes[] = {
      {"BOOL", ST_BOOL, 8},
      {"F4", ST_F4, 4},
      {"F6_E2M3", ST_F6_E2M3, 6},
      {"F6_E3M2", ST_F6_E3M2, 6},
      {"U8", ST_U8, 8},
      {"I8", ST_I8, 8},
      {"F8_E5M2", ST_F8_E5M2, 8},
      {"F8_E4M3", ST_F8_E4M3, 8},
      {"F8_E8M0", ST_F8_E8M0, 8},
      {"F8_E4M3FNUZ", ST_F8_E4M3FNUZ, 8},
      {"F8_E5M2FNUZ", ST_F8_E5M2FNUZ, 8},
      {"I16", ST_I16, 16},
      {"U16", ST_U16, 16},
      {"F16", ST_F16, 16},
      {"BF16", ST_BF16, 16},
      {"I32", ST_I32, 32},
      {"U32", ST_U32, 32},
      {"F32", ST_F32, 32},
      {"C64", ST_C64, 64},
      {"F64", ST_F64, 64},
      {"I64", ST_I64, 64},
      {"U64", ST_U64, 64},
  };
  size_t i;
  CHECK(sizeof kDtypes / sizeof kDtypes[0] == 22);
  for (i = 0; i < 22; ++i) {
    const uint32_t bytes = kDtypes[i].bits * 4 / 8;
    char header[200];
    snprintf(header, sizeof header, "{\"a\":{\"dtype\":\"%s\",\"shape\":[4],\"data_offsets\":[0,%u]}}", kDtypes[i].name,
             (unsigned)bytes);
    st_file *file = open_text(header, bytes, 0);
    const st_tensor *tensor = st_get_tensor_at(file, 0);
    CHECK_FOR(kDtypes[i].name, st_tensor_dtype(tensor) == kDtypes[i].dtype && st_tensor_bytes(tensor) == bytes);
    CHECK_FOR(kDtypes[i].name, strcmp(st_tensor_dtype_name(tensor), kDtypes[i].name) == 0);
    CHECK_FOR(kDtypes[i].name, strcmp(st_dtype_name(kDtypes[i].dtype), kDtypes[i].name) == 0);
    CHECK_FOR(kDtypes[i].name, st_dtype_bits(kDtypes[i].dtype) == kDtypes[i].bits);
    CHECK_FOR(kDtypes[i].name, st_dtype_from_name(kDtypes[i].name, strlen(kDtypes[i].name)) == kDtypes[i].dtype);
    CHECK_FOR(kDtypes[i].name, st_dtype_from_name(kDtypes[i].name, strlen(kDtypes[i].name) - 1) != kDtypes[i].dtype);
    st_free(file);
  }
  CHECK(st_dtype_from_name("F32\0", 4) == ST_DTYPE_UNKNOWN && st_dtype_from_name("", 0) == ST_DTYPE_UNKNOWN);
  CHECK(st_dtype_bits(ST_DTYPE_UNKNOWN) == 0 && st_dtype_bits(23) == 0 && st_dtype_bits(-1) == 0);
  CHECK(st_dtype_name(23) != NULL && st_dtype_name(-1) != NULL && st_dtype_name(INT32_MAX) != NULL);
}

static void unknown_dtypes_are_listed_when_asked_for(void) {
  const char *header =
      "{\"a\":{\"dtype\":\"F2\",\"shape\":[5],\"data_offsets\":[0,3]},"
      "\"b\":{\"dtype\":\"e\\u0001\\n\",\"shape\":[],\"data_offsets\":[3,4]},"
      "\"c\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[4,5]}}";
  st_file *file = open_text(header, 5, ST_OPEN_UNKNOWN_DTYPES);
  const st_tensor *a = st_get_tensor(file, "a");
  unsigned char read[3];
  CHECK(st_tensor_dtype(a) == ST_DTYPE_UNKNOWN && strcmp(st_tensor_dtype_name(a), "F2") == 0);
  CHECK(st_tensor_rank(a) == 1 && st_tensor_shape(a)[0] == 5 && st_tensor_elements(a) == 5 && st_tensor_bytes(a) == 3);
  CHECK(st_tensor_read(a, read, sizeof read, NULL) == ST_OK && read[2] == 2);
  CHECK(st_tensor_dtype(st_get_tensor(file, "b")) == ST_DTYPE_UNKNOWN &&
        st_tensor_dtype_name(st_get_tensor(file, "b"))[0] == 'e');
  CHECK(st_tensor_dtype(st_get_tensor(file, "c")) == ST_U8);
  CHECK(strcmp(st_get_header(file, 0, NULL), header) == 0);
  st_free(file);
}

static void reading_wants_a_buffer_of_the_right_size(void) {
  static const size_t kWrong[] = {0, 15, 17, SIZE_MAX};
  st_file *file = open_text(TEST_TWO, 20, 0);
  const st_tensor *w = st_get_tensor(file, "w");
  unsigned char read[32];
  size_t i;
  memset(read, 0xEE, sizeof read);
  for (i = 0; i < sizeof kWrong / sizeof kWrong[0]; ++i) {
    st_error err = ST_INIT(st_error);
    CHECK(st_tensor_read(w, read, kWrong[i], &err) == ST_ERR_BUFFER_SIZE);
    CHECK_FOR(err.message, strstr(err.message, "'w'") != NULL && strstr(err.message, "16") != NULL);
  }
  for (i = 0; i < sizeof read; ++i) CHECK(read[i] == 0xEE);
  CHECK(st_tensor_read(w, NULL, 16, NULL) == ST_ERR_ARGUMENT);
  st_free(file);
}

static void a_limit_on_the_header(void) {
  test_bytes file = test_file(TEST_TWO, 20);
  st_open_options options = ST_INIT(st_open_options);
  st_error err = ST_INIT(st_error);
  st_file *out = NULL;
  options.max_header_bytes = strlen(TEST_TWO);
  CHECK(test_open(&file, &options, &out, NULL) == ST_OK);
  st_free(out);
  options.max_header_bytes -= 1;
  CHECK(test_open(&file, &options, &out, &err) == ST_ERR_HEADER_SIZE && err.offset == 0);
  options.max_header_bytes = UINT64_MAX; /* a value above the format's limit has no effect */
  CHECK(test_open(&file, &options, &out, NULL) == ST_OK);
  st_free(out);
  test_release(&file);
}

static void a_null_argument_is_an_error(void) {
  test_bytes file = test_file(TEST_TWO, 20);
  st_file *const sentinel = (st_file *)(void *)&file;
  st_file *out = sentinel;
  st_error err = ST_INIT(st_error);
  st_source source = ST_INIT(st_source);
  source.size = 100;
  CHECK(st_open(NULL, NULL, &out, &err) == ST_ERR_ARGUMENT && err.offset == UINT64_MAX && err.message[0] != '\0');
  CHECK(st_open("x", NULL, NULL, NULL) == ST_ERR_ARGUMENT);
  CHECK(st_open_memory(NULL, 10, NULL, NULL, NULL, &out, NULL) == ST_ERR_ARGUMENT);
  CHECK(st_open_memory(NULL, 0, NULL, NULL, NULL, &out, NULL) == ST_ERR_TRUNCATED);
  CHECK(st_open_memory(file.data, file.size, NULL, NULL, NULL, NULL, NULL) == ST_ERR_ARGUMENT);
  CHECK(st_open_fd(0, 0, 0, NULL, NULL, NULL) == ST_ERR_ARGUMENT);
  CHECK(st_open_source(NULL, NULL, &out, NULL) == ST_ERR_ARGUMENT);
  CHECK(st_open_source(&source, NULL, &out, NULL) == ST_ERR_ARGUMENT); /* no read_at */
  CHECK(st_tensor_read(NULL, &file, 1, NULL) == ST_ERR_ARGUMENT);
  CHECK(out == sentinel);
  st_free(NULL);
  CHECK(st_retain(NULL) == NULL);
  st_tensor_advise(NULL, 0, ST_ADVICE_WILL_NEED);
  test_release(&file);
}

static void a_file_lives_until_its_last_holder_lets_go(void) {
  st_file *file = open_text(TEST_TWO, 20, 0);
  const st_tensor *w = st_get_tensor(file, "w");
  unsigned char read[16];
  CHECK(st_retain(file) == file && st_retain(file) == file);
  st_free(file);
  st_free(file);
  CHECK(st_tensor_read(w, read, sizeof read, NULL) == ST_OK && read[15] == 15);
  st_free(file);
}

#if ST_VERSION_NUMBER < 0x000300 || ST_VERSION_NUMBER >= 0xFF0000
#error the number of the version cannot be compared in #if
#endif

static void names_and_versions(void) {
  CHECK(st_version() == ST_VERSION_NUMBER);
  CHECK(st_version() == (ST_VERSION_MAJOR << 16 | ST_VERSION_MINOR << 8 | ST_VERSION_PATCH));
  char version[32];
  snprintf(version, sizeof version, "%d.%d.%d", ST_VERSION_MAJOR, ST_VERSION_MINOR, ST_VERSION_PATCH);
  CHECK(strncmp(st_version_string(), version, strlen(version)) == 0 && strstr(st_version_string(), "simdjson") != NULL);
  CHECK(strcmp(st_status_name(ST_OK), "ST_OK") == 0 && strcmp(st_status_name(ST_ERR_COVERAGE), "ST_ERR_COVERAGE") == 0);
  CHECK(strcmp(st_status_name(ST_ERR_INTERNAL), "ST_ERR_INTERNAL") == 0);
  CHECK(st_status_name(1) != NULL && st_status_name(-1) != NULL && st_status_name(INT32_MAX) != NULL);
}

static void advice_changes_nothing(void) {
  st_file *file = open_text(TEST_TWO, 20, 0);
  const st_tensor *both[2];
  both[0] = st_get_tensor_at(file, 0);
  both[1] = st_get_tensor_at(file, 1);
  st_tensor_advise(both, 2, ST_ADVICE_WILL_NEED);
  st_tensor_advise(both, 2, ST_ADVICE_DONT_NEED);
  st_tensor_advise(both, 2, 77);
  CHECK(((const unsigned char *)st_tensor_data(both[0]))[5] == 5);
  st_free(file);
}

int main(void) {
  one_tensor_in_all_its_parts();
  what_is_absent_is_null();
  data_order_is_by_place_and_then_by_name();
  a_name_is_any_string();
  names_that_differ_only_behind_a_nul();
  metadata_in_the_order_of_the_file();
  by_the_reference_the_last_of_two_counts();
  every_dtype();
  unknown_dtypes_are_listed_when_asked_for();
  reading_wants_a_buffer_of_the_right_size();
  a_limit_on_the_header();
  a_null_argument_is_an_error();
  a_file_lives_until_its_last_holder_lets_go();
  names_and_versions();
  advice_changes_nothing();
  return test_result();
}
