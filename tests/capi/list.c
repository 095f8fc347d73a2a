/* The columns of st_list_tensors match the functions for one tensor, for every kind of file, and outlive the file.
 * SPDX-License-Identifier: Apache-2.0 */
#define _XOPEN_SOURCE 700
#include "test.h"

#include <pthread.h>

#include "folder.h"

static void row_is_the_tensor(const st_tensor_list *list, size_t i, const st_tensor *tensor) {
  size_t len = 0;
  const char *const name = st_tensor_name(tensor, &len);
  const uint64_t begin = list->name_offsets[i], end = list->name_offsets[i + 1];
  CHECK_FOR(name, end - begin == len + 1 && memcmp(list->names + begin, name, len + 1) == 0);
  CHECK_FOR(name, list->dtypes[i] == st_tensor_dtype(tensor));
  CHECK_FOR(name, list->ranks[i] == st_tensor_rank(tensor));
  CHECK_FOR(name, list->dim_offsets[i + 1] - list->dim_offsets[i] == st_tensor_rank(tensor));
  CHECK_FOR(name, memcmp(list->dims + list->dim_offsets[i], st_tensor_shape(tensor),
                         st_tensor_rank(tensor) * sizeof(uint64_t)) == 0);
  CHECK_FOR(name, list->offsets[i] == st_tensor_offset(tensor) && list->sizes[i] == st_tensor_bytes(tensor));
  CHECK_FOR(name, list->shards[i] == st_tensor_shard(tensor) && list->tensors[i] == tensor);
  if ((list->flags & ST_LIST_DATA) != 0) CHECK_FOR(name, list->data[i] == st_tensor_data(tensor));
}

static void list_is_the_file(const st_file *file, uint32_t flags) {
  st_tensor_list *list = NULL;
  size_t i;
  CHECK(st_list_tensors(file, flags, &list, NULL) == ST_OK && list != NULL);
  CHECK(list->struct_size == sizeof(st_tensor_list) && list->flags == flags && list->reserved == NULL);
  CHECK(list->count == st_count_tensors(file));
  CHECK(list->name_offsets[0] == 0 && list->dim_offsets[0] == 0);
  CHECK((list->data != NULL) == ((flags & ST_LIST_DATA) != 0));
  for (i = 0; i < list->count; ++i) row_is_the_tensor(list, i, st_get_tensor_at(file, i));
  st_tensor_list_free(list);
}

/* Every kind of row: a name with a NUL, an empty name, scalars, many dimensions, no elements, an unknown dtype. */
#define ALL_KINDS                                                                               \
  "{\"a\\u0000b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"                    \
  "\"\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[8,9]},"                                \
  "\"many\":{\"dtype\":\"I8\",\"shape\":[1,1,1,1,1,1,1,1,1,3],\"data_offsets\":[9,12]},"        \
  "\"none\":{\"dtype\":\"F64\",\"shape\":[4,0,18446744073709551615],\"data_offsets\":[12,12]}," \
  "\"new\":{\"dtype\":\"F128\",\"shape\":[1],\"data_offsets\":[12,28]},"                        \
  "\"\xE6\xA8\xA1\":{\"dtype\":\"F4\",\"shape\":[2,2],\"data_offsets\":[28,30]}}"

static void of_every_kind_of_row(void) {
  st_open_options options = ST_INIT(st_open_options);
  test_bytes bytes = test_file(ALL_KINDS, 30);
  st_file *file = NULL;
  options.flags = ST_OPEN_UNKNOWN_DTYPES;
  CHECK(test_open(&bytes, &options, &file, NULL) == ST_OK);
  CHECK(st_count_tensors(file) == 6);
  list_is_the_file(file, 0);
  list_is_the_file(file, ST_LIST_DATA);
  st_free(file);
  test_release(&bytes);
}

static void of_no_tensors(void) {
  test_bytes bytes = test_file("{}", 0);
  st_file *file = NULL;
  CHECK(test_open(&bytes, NULL, &file, NULL) == ST_OK);
  list_is_the_file(file, 0);
  list_is_the_file(file, ST_LIST_DATA);
  st_free(file);
  test_release(&bytes);
}

static void of_shards(void) {
  static const st_io modes[] = {ST_IO_AUTO, ST_IO_MAP, ST_IO_COPY, ST_IO_READ};
  char header[200], path[60];
  FILE *const index = fopen("m.safetensors.index.json", "w");
  size_t i;
  fprintf(index, "{\"metadata\":{},\"weight_map\":{");
  for (i = 1; i <= 3; ++i) {
    snprintf(header, sizeof header, "{\"t%u\":{\"dtype\":\"U8\",\"shape\":[%u,1],\"data_offsets\":[0,%u]}}",
             (unsigned)i, (unsigned)i, (unsigned)i);
    test_bytes shard = test_file(header, i);
    snprintf(path, sizeof path, "m-%05u-of-00003.safetensors", (unsigned)i);
    test_save(path, shard.data, shard.size);
    fprintf(index, "%s\"t%u\":\"%s\"", i == 1 ? "" : ",", (unsigned)i, path);
    test_release(&shard);
  }
  fprintf(index, "}}");
  fclose(index);
  for (i = 0; i < sizeof modes / sizeof modes[0]; ++i) {
    st_open_options options = test_mode(modes[i]);
    st_file *file = NULL;
    CHECK(st_open("m.safetensors.index.json", &options, &file, NULL) == ST_OK && st_count_shards(file) == 3);
    list_is_the_file(file, 0);
    list_is_the_file(file, ST_LIST_DATA);
    st_free(file);
  }
}

static void columns_but_borrowed_ones_outlive_the_file(void) {
  test_bytes bytes = test_file(TEST_TWO, 20);
  st_tensor_list *list = NULL;
  st_file *file = NULL;
  CHECK(test_open(&bytes, NULL, &file, NULL) == ST_OK);
  CHECK(st_list_tensors(file, ST_LIST_DATA, &list, NULL) == ST_OK);
  st_free(file);
  memset(bytes.data, 0, bytes.size);
  CHECK(memcmp(list->names, "w\0b", 4) == 0 && list->name_offsets[2] == 4);
  CHECK(list->dtypes[0] == ST_F32 && list->dtypes[1] == ST_BF16 && list->ranks[0] == 2 && list->dims[2] == 2);
  CHECK(list->sizes[0] == 16 && list->sizes[1] == 4 && list->offsets[1] - list->offsets[0] == 16);
  st_tensor_list_free(list);
  test_release(&bytes);
}

static void wrong_arguments(void) {
  test_bytes bytes = test_file(TEST_TWO, 20);
  st_tensor_list *list = NULL;
  st_file *file = NULL;
  st_error err = ST_INIT(st_error);
  unsigned bit;
  CHECK(test_open(&bytes, NULL, &file, NULL) == ST_OK);
  CHECK(st_list_tensors(NULL, 0, &list, &err) == ST_ERR_ARGUMENT && strstr(err.message, "file") != NULL);
  CHECK(st_list_tensors(file, 0, NULL, &err) == ST_ERR_ARGUMENT && strstr(err.message, "out") != NULL);
  for (bit = 1; bit < 32; ++bit) {
    CHECK(st_list_tensors(file, (uint32_t)1 << bit, &list, &err) == ST_ERR_UNSUPPORTED);
  }
  CHECK(list == NULL);
  st_tensor_list_free(NULL);
  st_free(file);
  test_release(&bytes);
}

static void *list_many_times(void *file) {
  int i;
  for (i = 0; i < 50; ++i) list_is_the_file((const st_file *)file, i % 2 ? ST_LIST_DATA : 0);
  return NULL;
}

static void from_many_threads(void) {
  test_bytes bytes = test_file(TEST_TWO, 20);
  pthread_t threads[4];
  st_file *file = NULL;
  size_t i;
  test_save("one.safetensors", bytes.data, bytes.size);
  CHECK(st_open("one.safetensors", NULL, &file, NULL) == ST_OK); /* mapped when the first asks for data */
  for (i = 0; i < 4; ++i) CHECK(pthread_create(&threads[i], NULL, list_many_times, file) == 0);
  for (i = 0; i < 4; ++i) pthread_join(threads[i], NULL);
  st_free(file);
  test_release(&bytes);
}

int main(void) {
  test_enter_folder();
  of_every_kind_of_row();
  of_no_tensors();
  of_shards();
  columns_but_borrowed_ones_outlive_the_file();
  wrong_arguments();
  from_many_threads();
  test_leave_folder();
  return test_result();
}
