/* Strings with a length need not end with a NUL. Names and metadata may contain NULs.
 * SPDX-License-Identifier: Apache-2.0 */
#define _XOPEN_SOURCE 700
#include "test.h"

#include "folder.h"

/* A path with more text after its length. */
static const char kPath[] = "one.safetensors.tmp";
enum { PATH = sizeof "one.safetensors" - 1 };

static void a_path_ends_where_its_length_says(void) {
  const uint64_t shape[] = {2};
  st_writer *writer = NULL;
  st_file *file = NULL;
  st_error err = ST_INIT(st_error);
  size_t len = 0;
  const char *text;
  CHECK(st_writer_new(&writer, NULL) == ST_OK);
  CHECK(st_writer_add(writer, "t", ST_U8, 1, shape, "ab", NULL, NULL) == ST_OK);
  CHECK(st_writer_begin_n(writer, "one\0", 4, NULL, &err) == ST_ERR_ARGUMENT &&
        strstr(err.message, "'one\\x00'") != NULL);
  CHECK(st_writer_begin_n(writer, kPath, PATH, NULL, NULL) == ST_OK && st_writer_finish(writer, NULL) == ST_OK);
  st_writer_free(writer);
  CHECK(access("one.safetensors", F_OK) == 0 && access(kPath, F_OK) != 0);
  CHECK(st_open_n("one\0safetensors", 15, NULL, &file, &err) == ST_ERR_ARGUMENT && file == NULL);
  CHECK(st_open_n(kPath, PATH - 1, NULL, &file, NULL) == ST_ERR_OPEN && file == NULL);
  CHECK(st_open_n("", 0, NULL, &file, NULL) == ST_ERR_OPEN);
  CHECK(st_open_n(kPath, PATH, NULL, &file, NULL) == ST_OK);
  text = st_get_shard_path_n(file, 0, &len);
  CHECK(len == PATH && memcmp(text, kPath, PATH) == 0 && text == st_get_shard_path(file, 0));
  len = 77;
  CHECK(st_get_shard_path_n(file, 1, &len) == NULL && len == 77);
  CHECK(st_get_warning_n(file, 0, &len) == NULL && len == 77);
  text = st_tensor_dtype_name_n(st_get_tensor(file, "t"), &len);
  CHECK(len == 2 && strcmp(text, "U8") == 0);
  st_free(file);
}

static void metadata_with_nuls_is_edited(void) {
  const char *const keys[] = {"a\0b", "gone", "k..."};
  const size_t key_lens[] = {3, 4, 1};
  const char *const values[] = {"v\0w", NULL, "\0."};
  const size_t value_lens[] = {3, 99, 1};
  st_error err = ST_INIT(st_error);
  st_file *file = NULL;
  size_t len = 0;
  const char *value;
  CHECK(st_edit_metadata("one.safetensors", &keys[1], &keys[1], 1, NULL, NULL) == ST_OK);
  CHECK(st_edit_metadata("one.safetensors", keys, keys, SIZE_MAX / 8, NULL, NULL) == ST_ERR_NO_MEMORY);
  CHECK(st_edit_metadata_n(kPath, PATH, keys, key_lens, values, value_lens, 3, NULL, &err) == ST_OK);
  CHECK_FOR(err.message, st_open("one.safetensors", NULL, &file, NULL) == ST_OK && st_count_metadata(file) == 2);
  value = st_get_metadata_n(file, "a\0b", 3, &len);
  CHECK(value != NULL && len == 3 && memcmp(value, "v\0w", 4) == 0);
  value = st_get_metadata_n(file, "k", 1, &len);
  CHECK(value != NULL && len == 1 && value[0] == '\0');
  st_free(file);
  CHECK(st_edit_metadata_n("one.safetensors\0", PATH + 1, keys, key_lens, values, value_lens, 3, NULL, &err) ==
        ST_ERR_ARGUMENT);
}

static void a_warning_has_its_length(void) {
  test_bytes shard = test_file(
      "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
      "\"b\":{\"dtype\":\"F128\",\"shape\":[1],\"data_offsets\":[1,17]}}",
      17);
  static const char index[] = "{\"metadata\":{},\"weight_map\":{\"a\":\"s.safetensors\"}}";
  st_open_options options = ST_INIT(st_open_options);
  st_file *file = NULL;
  size_t len = 0;
  const char *text;
  options.flags = ST_OPEN_UNKNOWN_DTYPES;
  test_save("s.safetensors", shard.data, shard.size);
  test_save("s.safetensors.index.json", index, sizeof index - 1);
  CHECK(st_open("s.safetensors.index.json", &options, &file, NULL) == ST_OK && st_count_warnings(file) == 1);
  text = st_get_warning_n(file, 0, &len);
  CHECK(text == st_get_warning(file, 0) && len == strlen(text) && len > 10);
  text = st_tensor_dtype_name_n(st_get_tensor(file, "b"), &len);
  CHECK(len == 4 && strcmp(text, "F128") == 0);
  st_free(file);
  test_release(&shard);
}

int main(void) {
  test_enter_folder();
  a_path_ends_where_its_length_says();
  metadata_with_nuls_is_edited();
  a_warning_has_its_length();
  test_leave_folder();
  return test_result();
}
